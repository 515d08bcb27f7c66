package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/store/gormstore"
)

// patience bounds each wait for the product to finish what it was given.
const patience = 10 * time.Minute

// product is transmsg as a service uses it, with its default settings, on one schema.
type product struct {
	sc     *Schema
	b      *Broker
	store  *gormstore.Store
	sender *confirms.Sender
	// waiting is how many rows that are not due the schema holds beside the run's own.
	waiting int
}

func openProduct(ctx context.Context, sc *Schema, b *Broker) (*product, error) {
	p := &product{sc: sc, b: b}
	var err error
	if p.store, err = anystore.Open(ctx, sc.DSN, gormstore.Options{}); err != nil {
		return nil, err
	}
	if p.sender, err = confirms.Open(b.cfg); err != nil {
		return nil, errors.Join(err, p.close(ctx))
	}
	ready, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := p.sender.WaitReady(ready); err != nil {
		return nil, errors.Join(err, p.close(ctx))
	}
	return p, nil
}

func (p *product) close(ctx context.Context) error {
	var err error
	if p.sender != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		err = p.sender.Close(ctx)
	}
	return errors.Join(err, p.store.Close())
}

// outcome is one timed run.
type outcome struct {
	n       int
	elapsed time.Duration
	ids     [][]string
	// publish and confirm are the times from the call of Publish to its return and to the
	// confirm; nil where nobody waits.
	publish, confirm []time.Duration
	deferred         int // sends that a compensator had to do
	usage            Usage
	statements       float64 // per message; 0 where the server does not tell
}

func (o *outcome) rate() float64 { return rate(o.n, o.elapsed) }

// load sends messages through a publisher; it counts what was not acked at once.
type load func(ctx context.Context, pub *publisher.Publisher, o *outcome, notAcked *atomic.Int64) error

// measure runs a load. The clock runs from the first Publish until the table is empty:
// the publisher's Close returns when the last confirmed row is deleted; what was deferred
// is a compensator's, within the clock.
func (p *product) measure(ctx context.Context, n int, f load) (*outcome, error) {
	pub, err := publisher.Open(publisher.Config{Service: service, Store: p.store, Sender: p.sender})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o := &outcome{n: n}
	p.sc.Rest(ctx)
	questions := p.questions(ctx)
	m := startMeter()
	var notAcked atomic.Int64
	start := time.Now()
	err = f(ctx, pub, o, &notAcked)
	err = errors.Join(err, pub.Close(ctx))
	o.elapsed = time.Since(start)
	o.usage = m.stop(n)
	o.statements = ratio(p.questions(ctx)-questions, float64(n))
	if err != nil {
		return nil, err
	}
	o.deferred = int(notAcked.Load())
	rows, err := p.rows(ctx)
	if err == nil && rows > 0 { // some were deferred: the clock goes on
		o.deferred = max(o.deferred, rows)
		if _, err = p.drain(ctx, rows, []*product{p}); err == nil {
			o.elapsed = time.Since(start)
			rows, err = p.rows(ctx)
		}
	}
	if err == nil && rows > 0 {
		err = fmt.Errorf("%d rows are left in the table", rows)
	}
	return o, err
}

// publish has so many callers, each publishing one message and waiting for its confirm.
func (p *product) publish(ctx context.Context, callers, n int, body []byte) (*outcome, error) {
	m := message(p.b.Exchange, body)
	return p.measure(ctx, n, func(ctx context.Context, pub *publisher.Publisher, o *outcome, not *atomic.Int64) error {
		o.ids = make([][]string, callers)
		o.publish, o.confirm = make([]time.Duration, n), make([]time.Duration, n)
		errs := make([]error, callers)
		var wg sync.WaitGroup
		for i := range callers {
			first := n * i / callers
			o.ids[i] = make([]string, share(n, callers, i))
			wg.Go(func() {
				for j := range o.ids[i] {
					start := time.Now()
					r, err := pub.Publish(ctx, m)
					if err != nil {
						errs[i] = err
						return
					}
					o.publish[first+j] = time.Since(start)
					errs[i] = wait(ctx, r, not)
					o.confirm[first+j] = time.Since(start)
					o.ids[i][j] = r.ID()
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	})
}

// batch has so many callers of PublishBatch, each waiting for the confirms of its batch.
func (p *product) batch(ctx context.Context, callers, size, n int, body []byte) (*outcome, error) {
	n = n / (callers * size) * callers * size
	return p.measure(ctx, n, func(ctx context.Context, pub *publisher.Publisher, o *outcome, not *atomic.Int64) error {
		o.ids = make([][]string, callers)
		errs := make([]error, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				batch := repeat(message(p.b.Exchange, body), size)
				for range n / (callers * size) {
					receipts, err := pub.PublishBatch(ctx, batch)
					if err != nil {
						errs[i] = err
						return
					}
					for _, r := range receipts {
						errs[i] = errors.Join(errs[i], wait(ctx, r, not))
						o.ids[i] = append(o.ids[i], r.ID())
					}
				}
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	})
}

func wait(ctx context.Context, r *publisher.Receipt, notAcked *atomic.Int64) error {
	got, err := r.Wait(ctx)
	if err == nil && got.Kind != model.Acked {
		notAcked.Add(1)
	}
	return err
}

// rows counts the rows that are left beside those that wait.
func (p *product) rows(ctx context.Context) (int, error) {
	var n int
	err := p.sc.Pool.QueryRowContext(ctx, "SELECT COUNT(*) FROM trans_message").Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count rows: %w", err)
	}
	return n - p.waiting, nil
}

// questions is the server's count of statements so far, of all its clients; 0 where it
// does not tell.
func (p *product) questions(ctx context.Context) float64 {
	if p.sc.Kind != kindMySQL {
		return 0
	}
	var name sql.RawBytes
	var n float64
	rows, err := p.sc.Pool.QueryContext(ctx, "SHOW GLOBAL STATUS LIKE 'Questions'")
	if err != nil {
		return 0
	}
	defer rows.Close()
	if !rows.Next() || rows.Scan(&name, &n) != nil || rows.Err() != nil {
		return 0
	}
	return n
}

// drain has one compensator per replica send n due rows. Each is what a process of its
// own would run; the run is over when all that was sent is written.
func (p *product) drain(ctx context.Context, n int, replicas []*product) (*outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o := &outcome{n: n}
	done := newGoal(n)
	run, stop := context.WithCancel(ctx)
	defer stop()
	var all []*compensator.Compensator
	for i, r := range replicas {
		c, err := compensator.New(compensator.Config{
			Store: r.store, Sender: r.sender, Instance: fmt.Sprintf("bench-%d", i),
			Observers: []compensator.Observer{{RunEnd: func(f compensator.RunStats) { done.add(f.Acked, f.Failed) }}},
		})
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	p.sc.Rest(ctx)
	questions := p.questions(ctx)
	m := startMeter()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	start := time.Now()
	for i, c := range all {
		wg.Go(func() { errs[i] = c.Run(run) })
	}
	err := done.wait(ctx)
	o.elapsed = time.Since(start)
	o.usage = m.stop(n)
	o.statements = ratio(p.questions(ctx)-questions, float64(n))
	stop()
	wg.Wait()
	return o, errors.Join(err, errors.Join(errs...))
}

// goal is reached when as many rows as wanted were acked.
type goal struct {
	left    atomic.Int64
	failed  atomic.Int64
	reached chan struct{}
	once    sync.Once
}

func newGoal(n int) *goal {
	g := &goal{reached: make(chan struct{})}
	g.left.Store(int64(n))
	return g
}

func (g *goal) add(acked, failed int) {
	g.failed.Add(int64(failed))
	if g.left.Add(-int64(acked)) <= 0 || failed > 0 {
		g.once.Do(func() { close(g.reached) })
	}
}

func (g *goal) wait(ctx context.Context) error {
	select {
	case <-g.reached:
	case <-ctx.Done():
		return fmt.Errorf("drain: %d rows not sent: %w", g.left.Load(), ctx.Err())
	}
	if n := g.failed.Load(); n > 0 {
		return fmt.Errorf("drain: %d sends failed", n)
	}
	return nil
}
