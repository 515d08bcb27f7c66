package bench

import (
	"context"
	"fmt"
)

// backlogBlocks are drain and growth.
func (r *runner) backlogBlocks(ctx context.Context) []block {
	var out []block
	backlogs := r.cfg.backlogs()
	largest := backlogs[len(backlogs)-1]
	if r.cfg.has("drain") {
		figures := []*figure{
			r.drainFigure(ctx, 1, 0, r.cfg.drainSize()), r.drainFigure(ctx, drainReplicas, 0, r.cfg.drainSize()),
			r.drainFigure(ctx, 1, largest, r.cfg.drainSize()),
		}
		out = append(out, block{name: "drain", figures: figures, prepare: r.backlog(ctx, largest)})
	}
	if r.cfg.has("growth") {
		b := block{name: "growth", figures: []*figure{r.growthFigure(ctx, 0)}}
		for _, n := range backlogs {
			b.figures = append(b.figures, r.growthFigure(ctx, n))
		}
		b.prepare = r.backlog(ctx, backlogs...)
		out = append(out, b)
	}
	if r.cfg.has("drain") && !r.cfg.Quick {
		out = append(out, block{
			name: "drain of a large backlog", figures: []*figure{r.drainFigure(ctx, 1, 0, largest)}, once: true,
		})
	}
	return out
}

// backlog fills a schema for each number of rows that wait, once per run.
func (r *runner) backlog(ctx context.Context, sizes ...int) func() error {
	return func() error {
		for _, n := range sizes {
			if r.backlogs[n] != nil {
				continue
			}
			p, err := r.w.product(ctx)
			if err != nil {
				return err
			}
			r.say("filling a schema with %d rows that are not due", n)
			if err := p.fill(ctx, newIDRange(n), notDue, r.w.Body); err != nil {
				return err
			}
			p.waiting = n
			r.backlogs[n] = p
		}
		return nil
	}
}

// drainFigure is due rows sent by so many compensators, beside others that wait.
func (r *runner) drainFigure(ctx context.Context, replicas, waiting, n int) *figure {
	f := &figure{name: "drain", callers: replicas, waiting: waiting, messages: n}
	if waiting > 0 {
		f.reference = "drain with no row waiting"
	}
	f.run = func(f *figure, t *turn) error {
		all := []*product{r.backlogs[waiting]}
		for len(all) < replicas {
			p, err := r.extraReplica(ctx, len(all)-1)
			if err != nil {
				return err
			}
			all = append(all, p)
		}
		o, err := r.w.drain(ctx, n, all)
		if err != nil {
			return err
		}
		f.addOutcome(t, o)
		if waiting > 0 {
			compare(&f.ofReference, o.rate(), t.rate("drain", replicas))
		}
		return nil
	}
	return f
}

// extraReplica is the product once more on the main schema.
func (r *runner) extraReplica(ctx context.Context, i int) (*product, error) {
	for len(r.extra) <= i {
		p, err := r.w.replica(ctx, r.w.main.sc)
		if err != nil {
			return nil, fmt.Errorf("another compensator: %w", err)
		}
		r.extra = append(r.extra, p)
	}
	return r.extra[i], nil
}

// growthFigure is publish beside rows that wait.
func (r *runner) growthFigure(ctx context.Context, waiting int) *figure {
	f := &figure{name: "growth", callers: growthCallers, waiting: waiting}
	if waiting > 0 {
		f.reference = "publish with no row waiting"
	}
	f.run = func(f *figure, t *turn) error {
		o, err := r.backlogs[waiting].publish(ctx, growthCallers, r.cfg.publishSize(growthCallers), r.w.Body)
		if err != nil {
			return err
		}
		f.addOutcome(t, o)
		if waiting > 0 {
			compare(&f.ofReference, o.rate(), t.rate("growth", growthCallers))
		}
		return r.w.Check(ctx, flatten(o.ids))
	}
	return f
}
