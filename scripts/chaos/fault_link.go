package main

import (
	"context"
	"time"

	"github.com/transmsg/transmsg/internal/faultproxy"
)

func linkCut(ctx context.Context, f *fault) (proof, error) {
	before := f.link.Stats().Cut
	f.link.Cut(f.rng.IntN(2) == 0)
	return f.hold(ctx, "connections cut", func() int {
		if f.link.Stats().Cut == before { // all were just redialling
			f.link.Cut(true)
		}
		return f.link.Stats().Cut - before
	})
}

// linkStall lets nothing through in either direction while the sockets stay open.
func linkStall(ctx context.Context, f *fault) (proof, error) {
	return f.stall(ctx, faultproxy.ToServer, faultproxy.ToClient)
}

// linkHalfOpen lets the broker receive and nobody hear of it.
func linkHalfOpen(ctx context.Context, f *fault) (proof, error) {
	return f.stall(ctx, faultproxy.ToClient)
}

func (f *fault) stall(ctx context.Context, dirs ...faultproxy.Dir) (proof, error) {
	before := f.link.Stats().Stalled
	for _, d := range dirs {
		f.link.Stall(d)
	}
	defer f.link.Resume()
	return f.hold(ctx, "chunks of bytes stalled", func() int { return f.link.Stats().Stalled - before })
}

func linkDelay(ctx context.Context, f *fault) (proof, error) {
	before := f.link.Stats().Delayed
	for _, dir := range []faultproxy.Dir{faultproxy.ToServer, faultproxy.ToClient} {
		f.link.Delay(dir, time.Duration(100+f.rng.IntN(500))*time.Millisecond)
		defer f.link.Delay(dir, 0)
	}
	return f.hold(ctx, "chunks of bytes delayed", func() int { return f.link.Stats().Delayed - before })
}

// acksSwallowed lasts beyond the confirm timeout.
func acksSwallowed(ctx context.Context, f *fault) (proof, error) {
	before := f.link.Stats().SwallowedAcks
	f.link.SwallowAcks(true)
	defer f.link.SwallowAcks(false)
	return f.hold(ctx, "acks swallowed", func() int { return f.link.Stats().SwallowedAcks - before })
}
