package bench

import (
	"context"
	"fmt"
)

// Fixed sizes of the workloads.
const (
	batchCallers  = 8
	batchRows     = 100
	txCallers     = 64
	growthCallers = 256
	drainReplicas = 3
)

// block is figures that are measured in turn, repetition by repetition, behind one
// measurement of the raw limits.
type block struct {
	name    string
	figures []*figure
	prepare func() error // fills; may be nil
	// once is for what takes minutes: one repetition.
	once bool
}

// plan are the blocks of the run. A full run measures the limits again for each figure; a
// quick one once per repetition of everything.
func (r *runner) plan(ctx context.Context) []block {
	blocks := r.publishBlocks(ctx)
	if r.cfg.has("tx") {
		blocks = append(blocks, block{name: "tx", figures: []*figure{r.txFigure(ctx)}, prepare: r.openBusiness(ctx)})
	}
	if r.cfg.has("latency") {
		blocks = append(blocks, block{name: "latency", figures: []*figure{r.latencyFigure(ctx)}})
	}
	blocks = append(blocks, r.backlogBlocks(ctx)...)
	blocks = append(blocks, r.consumeBlocks(ctx)...)
	if r.cfg.Quick {
		return []block{merge(blocks)}
	}
	return blocks
}

func merge(blocks []block) block {
	all := block{name: "all"}
	var prepare []func() error
	for _, b := range blocks {
		all.figures = append(all.figures, b.figures...)
		if b.prepare != nil {
			prepare = append(prepare, b.prepare)
		}
	}
	all.prepare = func() error {
		for _, f := range prepare {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	}
	return all
}

// publishBlocks are naive and publish for each number of callers, and batch.
func (r *runner) publishBlocks(ctx context.Context) []block {
	var out []block
	add := func(name string, figures ...*figure) {
		if len(figures) > 0 {
			out = append(out, block{name: name, figures: figures})
		}
	}
	for _, callers := range r.cfg.Callers {
		var figures []*figure
		if r.cfg.has("naive") {
			figures = append(figures, r.naiveFigure(ctx, callers))
		}
		if r.cfg.has("publish") {
			figures = append(figures, r.publishFigure(ctx, callers))
		}
		add(fmt.Sprintf("publish, %d callers", callers), figures...)
	}
	if r.cfg.has("batch") {
		var figures []*figure
		if r.cfg.has("naive") {
			figures = append(figures, r.naiveFigure(ctx, batchCallers))
		}
		add("batch", append(figures, r.batchFigure(ctx))...)
	}
	return out
}

func (r *runner) naiveFigure(ctx context.Context, callers int) *figure {
	n := r.cfg.naiveSize(callers)
	return &figure{name: "naive", callers: callers, messages: n, run: func(f *figure, t *turn) error {
		got, err := r.runNaive(ctx, r.naive, callers, n)
		if err != nil {
			return err
		}
		f.add(t, got)
		f.ofNaive = append(f.ofNaive, 1)
		return nil
	}}
}

func (r *runner) publishFigure(ctx context.Context, callers int) *figure {
	return &figure{name: "publish", callers: callers, run: func(f *figure, t *turn) error {
		o, err := r.w.main.publish(ctx, callers, r.cfg.publishSize(callers), r.w.Body)
		if err != nil {
			return err
		}
		f.addOutcome(t, o)
		compare(&f.ofNaive, o.rate(), t.rate("naive", callers))
		return r.w.Check(ctx, flatten(o.ids))
	}}
}

func (r *runner) batchFigure(ctx context.Context) *figure {
	return &figure{name: "batch", callers: batchCallers, run: func(f *figure, t *turn) error {
		o, err := r.w.main.batch(ctx, batchCallers, batchRows, r.cfg.batchSize(), r.w.Body)
		if err != nil {
			return err
		}
		f.addOutcome(t, o)
		compare(&f.ofNaive, o.rate(), t.rate("naive", batchCallers))
		return r.w.Check(ctx, flatten(o.ids))
	}}
}

func (r *runner) openBusiness(ctx context.Context) func() error {
	return func() error {
		var err error
		r.business, err = openBusiness(ctx, r.w.main.sc)
		return err
	}
}

func (r *runner) txFigure(ctx context.Context) *figure {
	f := &figure{name: "tx", callers: txCallers, reference: "the same transaction without the message"}
	f.run = func(f *figure, t *turn) error {
		n := r.cfg.txSize()
		if err := Warm(ctx, r.business.db, r.business.conns); err != nil {
			return err
		}
		defer Cool(r.business.db, r.business.conns)
		r.w.main.sc.Rest(ctx)
		plain, err := r.business.plain(ctx, r.w.main.sc, txCallers, n)
		if err != nil {
			return err
		}
		o, err := r.business.withMessage(ctx, r.w.main, txCallers, n, r.w.Body)
		if err != nil {
			return err
		}
		f.addOutcome(t, o)
		compare(&f.ofReference, o.rate(), plain)
		compare(&f.ofNaive, o.rate(), t.rate("naive", txCallers))
		return r.w.Check(ctx, flatten(o.ids))
	}
	return f
}

func (r *runner) latencyFigure(ctx context.Context) *figure {
	f := &figure{name: "latency", callers: 1, reference: "confirm p50 over raw insert p50 + raw confirmed publish p50"}
	f.run = func(f *figure, t *turn) error {
		n := r.cfg.latencySize()
		r.w.main.sc.Rest(ctx)
		inserts, publishes, ids, err := rawTimes(ctx, r.w.main.sc, r.w.Broker, n, r.w.Body)
		if err != nil {
			return err
		}
		o, err := r.w.main.publish(ctx, 1, n, r.w.Body)
		if err != nil {
			return err
		}
		f.addOutcome(t, o)
		insert, publish := percentiles(inserts), percentiles(publishes)
		f.insert, f.rawPublish = append(f.insert, insert), append(f.rawPublish, publish)
		compare(&f.ofReference, f.confirm[len(f.confirm)-1].P50, insert.P50+publish.P50)
		return r.w.Check(ctx, flatten(append(o.ids, ids)))
	}
	return f
}
