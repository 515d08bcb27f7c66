package broker

import (
	"context"
	"math/rand/v2"
	"time"
)

// Bounds of the wait between two rounds of dials.
const (
	MinBackoff = 100 * time.Millisecond
	MaxBackoff = 3 * time.Second
)

// DialUntil tries the addresses in turn from *next on until one answers; after each round without success it waits.
// failed hears of each failure. false says that ctx has ended.
func (s *Settings) DialUntil(ctx context.Context, next *int, failed func(error)) (Dialled, bool) {
	backoff := MinBackoff
	for tries := 1; ; tries++ {
		addr := s.Addrs[*next%len(s.Addrs)]
		d, err := s.Dial(ctx, addr)
		if err == nil {
			return d, true
		}
		*next++
		if ctx.Err() != nil {
			return Dialled{}, false
		}
		failed(err)
		if tries%len(s.Addrs) == 0 {
			if !Sleep(ctx, Jitter(backoff)) {
				return Dialled{}, false
			}
			backoff = min(2*backoff, MaxBackoff)
		}
	}
}

// Jitter returns a duration between half of d and d.
func Jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// Sleep waits and reports whether ctx has not ended before.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// CloseGracefully tells the broker that the connection ends, which answers after all it has ready, and ends it when
// within is over. It returns when the library's call has.
func (d *Dialled) CloseGracefully(within time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// An error says only that the connection is gone already.
		_ = d.Conn.CloseDeadline(time.Now().Add(within))
	}()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-done:
		return
	case <-timer.C:
	}
	d.Wire.Kill() // releases the library's call whatever it waits for
	<-done
}
