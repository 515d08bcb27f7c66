package bench

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// World is the servers of one run, with an exchange, a queue and schemas of its own. Not
// safe for concurrent use: one contestant is measured at a time. Close it.
type World struct {
	// Broker has the exchange and the queue.
	Broker *Broker
	// Body is the body of every message.
	Body []byte
	// Settings are those that decide about durability; relaxed ones were refused.
	Settings []Setting
	// Tally is the sum of all checks so far.
	Tally Tally

	cfg     Config
	server  *server
	main    *product
	closers []func(context.Context) error
}

// Open validates cfg, connects, refuses servers whose settings give up durability, and
// makes an exchange, a queue and a schema. ctx bounds Open alone.
func Open(ctx context.Context, cfg Config) (*World, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	server, err := parseServer(cfg.Store)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	w := &World{cfg: cfg, server: server, Body: makeBody(cfg.Body)}
	if err := w.open(ctx); err != nil {
		return nil, fmt.Errorf("bench: %w", errors.Join(err, w.Close(ctx)))
	}
	return w, nil
}

func (w *World) open(ctx context.Context) error {
	var err error
	if w.Broker, err = openBroker(ctx, w.cfg.Broker, w.cfg.Queue); err != nil {
		return err
	}
	w.closers = append(w.closers, func(context.Context) error { return w.Broker.close() })
	if w.main, err = w.product(ctx); err != nil {
		return err
	}
	if w.Settings, err = durability(ctx, w.main.sc.Kind, w.main.sc.Pool); err != nil {
		return fmt.Errorf("%s: %w", w.server, err)
	}
	return nil
}

// Close deletes what the run made on the servers, in reverse, also after ctx has ended.
func (w *World) Close(ctx context.Context) error {
	var errs []error
	for i := len(w.closers) - 1; i >= 0; i-- {
		errs = append(errs, w.closers[i](ctx))
	}
	w.closers = nil
	return errors.Join(errs...)
}

// NewSchema makes another schema with the product's tables; it goes with the World.
func (w *World) NewSchema(ctx context.Context) (*Schema, error) {
	sc, err := w.server.newSchema(ctx)
	if err != nil {
		return nil, err
	}
	w.closers = append(w.closers, sc.close)
	sc.rest = restAtMost
	if w.cfg.Quick {
		sc.rest = restQuickly
	}
	return sc, nil
}

// product opens the product on a schema of its own.
func (w *World) product(ctx context.Context) (*product, error) {
	sc, err := w.NewSchema(ctx)
	if err != nil {
		return nil, err
	}
	return w.replica(ctx, sc)
}

// replica opens the product once more on a schema, as another process would.
func (w *World) replica(ctx context.Context, sc *Schema) (*product, error) {
	p, err := openProduct(ctx, sc, w.Broker)
	if err == nil {
		w.closers = append(w.closers, p.close)
	}
	return p, err
}

// Check empties the queue, holds it against the ids published and adds what it found to
// Tally. Anything lost, repeated or unknown is an error.
func (w *World) Check(ctx context.Context, published iter.Seq[string]) error {
	t, err := w.Broker.Check(ctx, published)
	w.Tally.Lost += t.Lost
	w.Tally.Repeats += t.Repeats
	w.Tally.Unknown += t.Unknown
	if err != nil {
		return err
	}
	return t.Err()
}

// Publish measures one run of the product's publish and checks it: callers wait for the
// confirm of each message. It returns messages per second.
func (w *World) Publish(ctx context.Context, callers, n int) (float64, error) {
	o, err := w.main.publish(ctx, callers, n, w.Body)
	if err != nil {
		return 0, err
	}
	return o.rate(), w.Check(ctx, flatten(o.ids))
}

// Drain fills the product's table with n due rows and measures one compensator sending
// them. It returns messages per second.
func (w *World) Drain(ctx context.Context, n int) (float64, error) {
	o, err := w.drain(ctx, n, []*product{w.main})
	if err != nil {
		return 0, err
	}
	return o.rate(), nil
}

// drain fills, drains by the replicas, which share a schema, and checks.
func (w *World) drain(ctx context.Context, n int, replicas []*product) (*outcome, error) {
	ids := newIDRange(n)
	p := replicas[0]
	if err := p.fill(ctx, ids, 0, w.Body); err != nil {
		return nil, err
	}
	o, err := p.drain(ctx, n, replicas)
	if err != nil {
		return nil, err
	}
	if err := w.Check(ctx, ids.all()); err != nil {
		return nil, err
	}
	rows, err := p.rows(ctx)
	if err == nil && rows != 0 {
		err = fmt.Errorf("%d rows are left in the table", rows)
	}
	return o, err
}

// Server names the database server without secrets.
func (w *World) Server() string { return w.server.String() }
