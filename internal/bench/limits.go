package bench

import (
	"context"
	"fmt"
)

// loop is one of the raw loops.
type loop struct {
	name  string
	store bool // of R_db; else of R_pub
	run   func(ctx context.Context, n int) (float64, error)
}

// loops are all from which the best is taken.
func (w *World) loops() []loop {
	var out []loop
	for _, channels := range []int{1, 4} {
		out = append(out, loop{
			name: fmt.Sprintf("publish, %d channels, window %d each", channels, rawWindow),
			run: func(ctx context.Context, n int) (float64, error) {
				r, ids, err := rawPublish(ctx, w.Broker, channels, n, w.Body)
				if err != nil {
					return 0, err
				}
				return r, w.Check(ctx, flatten(ids))
			},
		})
	}
	workers := []int{1, 2, 4}
	if w.main.sc.Kind == kindSQLite {
		workers = []int{1} // one connection, one writer
	}
	for _, rows := range []int{100, 500} {
		for _, k := range workers {
			out = append(out, loop{
				name: fmt.Sprintf("insert and delete, %d rows a statement, %d workers", rows, k), store: true,
				run: func(ctx context.Context, n int) (float64, error) {
					return rawStore(ctx, w.main.sc, k, rows, n, w.Body)
				},
			})
		}
	}
	return out
}

// limits are the raw figures of one repetition.
type limits struct{ publish, store float64 }

func (l limits) limit() float64 { return Limit(l.publish, l.store) }

// raw runs every raw loop once and takes the best of each kind.
func (r *runner) raw(ctx context.Context) (limits, error) {
	var best limits
	for i, l := range r.loops {
		r.w.main.sc.Rest(ctx)
		got, err := l.run(ctx, r.cfg.rawSize())
		if err != nil {
			return best, fmt.Errorf("%s: %w", l.name, err)
		}
		r.loopRates[i] = append(r.loopRates[i], got)
		if l.store {
			best.store = max(best.store, got)
		} else {
			best.publish = max(best.publish, got)
		}
	}
	r.publishes = append(r.publishes, best.publish)
	r.stores = append(r.stores, best.store)
	r.limits = append(r.limits, best.limit())
	r.say("  raw: publish %.0f/s, store %.0f/s, limit %.0f/s", best.publish, best.store, best.limit())
	return best, nil
}

// tuneNaive finds the naive contestant's best settings.
func (r *runner) tuneNaive(ctx context.Context) error {
	const callers = 64
	var best float64
	for _, choice := range naiveChoices(r.w.main.sc.Kind) {
		n, err := openNaive(ctx, r.w.main.sc, r.w.Broker, choice)
		if err != nil {
			return err
		}
		got, err := r.runNaive(ctx, n, callers, max(r.cfg.naiveSize(callers)/2, callers))
		r.say("naive with %v: %.0f/s", choice, got)
		r.choices = append(r.choices, RawLoop{Name: choice.String(), Rate: Figure(got)})
		if err == nil && got > best && !choice.wide {
			best, r.naive, n = got, n, r.naive // keep the better one, close the other
		}
		if n != nil {
			if e := n.close(); err == nil {
				err = e
			}
		}
		if err != nil {
			return err
		}
	}
	r.say("naive is best with %v", r.naive.tuning)
	return nil
}

func (r *runner) runNaive(ctx context.Context, n *naive, callers, messages int) (float64, error) {
	if err := Warm(ctx, n.pool, n.tuning.conns); err != nil {
		return 0, err
	}
	n.sc.Rest(ctx)
	defer Cool(n.pool, n.tuning.conns)
	got, ids, err := n.run(ctx, callers, messages, r.w.Body)
	if err != nil {
		return 0, err
	}
	return got, r.w.Check(ctx, flatten(ids))
}
