package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/transmsg/transmsg/internal/bench"
)

// peerConns is the size of each peer's database pool: four times transmsg's default, since
// they run one statement per message.
const peerConns = 32

// contestant does the same work as the others. Both methods check the queue and return
// messages per second.
type contestant interface {
	name() string
	// publish has so many callers store and send n messages; the clock runs until all are
	// confirmed and no row is left.
	publish(ctx context.Context, callers, n int) (float64, error)
	// drain sends n rows that are in the table; the clock runs until no row is left.
	drain(ctx context.Context, n int) (float64, error)
	// pool is its own database pool, nil for the product's.
	pool() *sql.DB
	close() error
}

// contestants opens all; ours is the first.
func contestants(ctx context.Context, w *bench.World) ([]contestant, func() error, error) {
	list := []contestant{ours{w}}
	closeAll := func() error {
		var errs []error
		for _, c := range list {
			errs = append(errs, c.close())
		}
		return errors.Join(errs...)
	}
	for _, open := range []func(context.Context, *bench.World) (contestant, error){
		openWatermill, openPlain, lanesOf(4), lanesOf(8),
	} {
		c, err := open(ctx, w)
		if err != nil {
			return list, closeAll, err
		}
		list = append(list, c)
	}
	return list, closeAll, nil
}

// ours is transmsg.
type ours struct{ w *bench.World }

func (ours) name() string { return "transmsg" }

func (o ours) publish(ctx context.Context, callers, n int) (float64, error) {
	return o.w.Publish(ctx, callers, n)
}

func (o ours) drain(ctx context.Context, n int) (float64, error) { return o.w.Drain(ctx, n) }

func (ours) pool() *sql.DB { return nil }

func (ours) close() error { return nil }

// rates has one contestant publish and drain. Its connections are there before the clock
// starts and gone when others run.
func rates(ctx context.Context, c contestant, callers, n int) (publish, drain float64, err error) {
	if db := c.pool(); db != nil {
		if err := bench.Warm(ctx, db, peerConns); err != nil {
			return 0, 0, fmt.Errorf("%s: connect: %w", c.name(), err)
		}
		defer bench.Cool(db, peerConns)
	}
	if publish, err = c.publish(ctx, callers, n); err != nil {
		return 0, 0, fmt.Errorf("%s: publish: %w", c.name(), err)
	}
	if drain, err = c.drain(ctx, n); err != nil {
		return 0, 0, fmt.Errorf("%s: drain: %w", c.name(), err)
	}
	return publish, drain, nil
}

// each calls f for every i below n from so many goroutines and stops a goroutine at its
// first error.
func each(workers, n int, f func(worker, i int) error) error {
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n && errs[w] == nil; i += workers {
				errs[w] = f(w, i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// poll waits for a state, looking often: what it adds to a run is below its scatter.
func poll(ctx context.Context, what string, reached func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := reached(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited for %s: %w", what, ctx.Err())
		}
	}
}

func rate(n int, start time.Time) float64 { return float64(n) / time.Since(start).Seconds() }
