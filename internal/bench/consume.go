package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/consumer/effect"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

// What consumes has as many at a time as these, raw and not.
const (
	consumeHandlers = 32
	consumePrefetch = 500
)

func (c Config) consumeSize() int { return c.Messages }

// consumeBlocks compare the consumer with a raw loop, and with an inbox with what both cost one after the other.
func (r *runner) consumeBlocks(ctx context.Context) []block {
	var out []block
	if r.cfg.has("consume") {
		f := &figure{name: "consume", callers: consumeHandlers, reference: "a raw consumer with manual ack"}
		f.run = func(f *figure, t *turn) error { return r.consume(ctx, f, t, false) }
		out = append(out, block{name: "consume", figures: []*figure{f}})
	}
	if r.cfg.has("consume-inbox") {
		f := &figure{
			name: "consume-inbox", callers: consumeHandlers,
			reference: "1/(1/raw consumer + 1/raw transactions with an inbox insert)",
		}
		f.run = func(f *figure, t *turn) error { return r.consume(ctx, f, t, true) }
		out = append(out, block{name: "consume-inbox", figures: []*figure{f}})
	}
	return out
}

// consume takes one repetition: raw and product in the same run.
func (r *runner) consume(ctx context.Context, f *figure, t *turn, inbox bool) error {
	n := r.cfg.consumeSize()
	raw, err := r.fillAnd(ctx, n, func() (float64, error) { return rawConsume(ctx, r.w.Broker, n) })
	if err != nil {
		return fmt.Errorf("raw consumer: %w", err)
	}
	handle := consumer.Handler(func(context.Context, *consumer.Message) error { return nil })
	limit := raw
	if inbox {
		pool, err := r.w.main.sc.Fresh(min(consumeHandlers, r.consumeConns()))
		if err != nil {
			return err
		}
		defer pool.Close()
		if err := Warm(ctx, pool, min(consumeHandlers, r.consumeConns())); err != nil {
			return err
		}
		records, err := rawRecords(ctx, pool, r.w.main.sc.Kind, n)
		if err != nil {
			return fmt.Errorf("raw inbox insert: %w", err)
		}
		limit = 1 / (1/raw + 1/records)
		if handle, err = r.inboxHandler(pool); err != nil {
			return err
		}
	}
	got, err := r.fillAnd(ctx, n, func() (float64, error) { return r.w.main.consume(ctx, n, handle) })
	if err != nil {
		return err
	}
	f.messages = n
	f.add(t, got)
	compare(&f.ofReference, got, limit)
	return nil
}

// consumeConns is the pool's size: SQLite has one writer.
func (r *runner) consumeConns() int {
	if r.w.main.sc.Kind == kindSQLite {
		return 1
	}
	return consumeHandlers
}

// fillAnd puts n messages into the queue, untimed, and then measures. Afterwards the queue must be empty.
func (r *runner) fillAnd(ctx context.Context, n int, measure func() (float64, error)) (float64, error) {
	if _, _, err := rawPublish(ctx, r.w.Broker, 1, n, r.w.Body); err != nil {
		return 0, err
	}
	got, err := measure()
	if err != nil {
		return 0, err
	}
	none := func(func(string) bool) {}
	switch left, err := r.w.Broker.Check(ctx, none); {
	case err != nil:
		return 0, err
	case left.Unknown > 0:
		return 0, fmt.Errorf("%d of %d messages were handled and are in the queue again", left.Unknown, n)
	}
	return got, nil
}

// rawConsume acks n messages one by one as fast as the client library does.
func rawConsume(ctx context.Context, b *Broker, n int) (float64, error) {
	conn, err := b.Dial(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return 0, err
	}
	if err := ch.Qos(consumePrefetch, 0, false); err != nil {
		return 0, err
	}
	deliveries, err := ch.ConsumeWithContext(ctx, b.Queue, "", false, false, false, false, nil)
	if err != nil {
		return 0, err
	}
	var start time.Time
	for got := 0; got < n; got++ {
		d, err := next(ctx, deliveries)
		if err != nil {
			return 0, fmt.Errorf("after %d of %d: %w", got, n, err)
		}
		if got == 0 {
			start = time.Now()
		}
		if err := d.Ack(false); err != nil {
			return 0, err
		}
	}
	elapsed := time.Since(start)
	// A quorum queue's channel drops acks that it holds back when it is closed (3.10): hundreds of messages came again.
	err = sleep(ctx, settleTime)
	return rate(n, elapsed), errors.Join(err, ch.Close())
}

// settleTime is for the last acks on their way to the queue. It is no part of a figure.
const settleTime = time.Second

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func next(ctx context.Context, deliveries <-chan amqp.Delivery) (amqp.Delivery, error) {
	select {
	case d, ok := <-deliveries:
		if !ok {
			return d, errors.New("the consumer was cancelled")
		}
		return d, nil
	case <-time.After(consumeStall):
		return amqp.Delivery{}, errStalled
	case <-ctx.Done():
		return amqp.Delivery{}, ctx.Err()
	}
}

var errStalled = fmt.Errorf("no message for %v", consumeStall)

// rawRecords runs n transactions that insert one record each, as bare as they can be.
func rawRecords(ctx context.Context, pool *sql.DB, kind string, n int) (float64, error) {
	create := map[string]string{
		kindPostgres: "CREATE TABLE bench_inbox (consumer VARCHAR(64), record_key BYTEA, done_at BIGINT, " +
			"PRIMARY KEY (consumer, record_key))",
		kindSQLite: "CREATE TABLE bench_inbox (consumer TEXT, record_key BLOB, done_at INTEGER, " +
			"PRIMARY KEY (consumer, record_key))",
	}[kind]
	if create == "" {
		create = "CREATE TABLE bench_inbox (consumer VARCHAR(64), record_key VARBINARY(255), done_at BIGINT, " +
			"PRIMARY KEY (consumer, record_key))"
	}
	insert := "INSERT INTO bench_inbox (consumer, record_key, done_at) VALUES (?, ?, ?)"
	if kind == kindPostgres {
		insert = "INSERT INTO bench_inbox (consumer, record_key, done_at) VALUES ($1, $2, $3)"
	}
	for _, q := range []string{"DROP TABLE IF EXISTS bench_inbox", create} {
		if _, err := pool.ExecContext(ctx, q); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	err := concurrently(consumeHandlers, n, func() error {
		tx, err := pool.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, insert, "bench", []byte(model.NewID()), time.Now().UnixMilli()); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	})
	return rate(n, time.Since(start)), err
}

// inboxHandler has no effect but its record.
func (r *runner) inboxHandler(pool *sql.DB) (consumer.Handler, error) {
	once, err := effect.New(effect.Config{Consumer: "bench", Store: r.w.main.store})
	if err != nil {
		return nil, err
	}
	none := func(context.Context, *sql.Tx, *publisher.Tx, *consumer.Message) error { return nil }
	return once.InTx(pool, nil, none), nil
}

// consume handles n messages of the queue with the product, from the first handler call to the last ack. Stopping is no
// part of the figure.
func (p *product) consume(ctx context.Context, n int, handle consumer.Handler) (float64, error) {
	m := &settled{want: int64(n), ended: make(chan struct{})}
	c, err := consumer.New(consumer.Config{
		Addrs: p.b.cfg.Addrs, VHost: p.b.cfg.VHost, Credentials: p.b.cfg.Credentials, TLS: p.b.cfg.TLS,
		Sender:    p.sender,
		Observers: []consumer.Observer{{Settled: m.note}},
		Queues: []consumer.Queue{{
			Name: p.b.Queue, DeadLetterExchange: p.b.Exchange, Prefetch: consumePrefetch, Handlers: consumeHandlers,
			Deadline: 10 * time.Second,
			Handler: func(ctx context.Context, got *consumer.Message) error {
				m.first.Do(func() { m.start = time.Now() })
				err := handle(ctx, got)
				if err != nil {
					m.failed.CompareAndSwap(nil, &err)
				}
				return err
			},
		}},
	})
	if err != nil {
		return 0, err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	result := make(chan error, 1)
	go func() { result <- c.Run(running) }()
	select {
	case <-m.ended:
	case <-time.After(patience):
		err = fmt.Errorf("%d of %d handled after %v", m.handled.Load(), n, patience)
	case <-ctx.Done():
		err = ctx.Err()
	}
	stop()
	err = errors.Join(err, <-result)
	if first := m.failed.Load(); first != nil {
		err = *first
	}
	if err != nil {
		return 0, err
	}
	return rate(n, m.end.Sub(m.start)), nil
}

// settled notes the first handler call and the last ack.
type settled struct {
	want       int64
	handled    atomic.Int64
	failed     atomic.Pointer[error]
	first      sync.Once
	stop       sync.Once
	start, end time.Time
	ended      chan struct{} // closed after end is set, or for want of success
}

// note is the consumer's observer. There is no ladder for what fails.
func (m *settled) note(e consumer.Event) {
	if e.Result == consumer.Handled && m.handled.Add(1) < m.want {
		return
	}
	if e.Result == consumer.Handled || e.Result == consumer.DeadLettered {
		m.stop.Do(func() {
			m.end = time.Now()
			close(m.ended)
		})
	}
}
