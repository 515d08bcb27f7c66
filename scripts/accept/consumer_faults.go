package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/dbtest"
)

const (
	faultsEach = 100
	// faultsTimeout stands for the broker's 30 minutes: the provider is away for as large a part of it as a quarter of
	// an hour is.
	faultsTimeout  = 12 * time.Second
	faultsProvider = 6 * time.Second // 15 simulated minutes
	faultsDatabase = 10 * time.Second
)

// consumerFaultsCheck takes away, one after the other, what a consumer needs.
func consumerFaultsCheck() check {
	return check{
		name: "consumer-faults",
		about: "queue deleted and made again, node stopped, consumer timeout exceeded, ladder queue missing, " +
			"dead-letter exchange missing, database stopped, provider away: " +
			"nothing lost, no dead letter, health down and up again",
		once: true,
		run:  runConsumerFaults,
	}
}

// faultsRun is a consumer whose handler writes to a database and asks a provider.
type faultsRun struct {
	*env
	figs   figures
	node   *amqptest.Node
	maria  *dbtest.MariaDBServer
	db     *sql.DB
	broker *amqptest.Client
	in     *intake

	away, fail, permanent, slow atomic.Bool
	undo                        []func() error
}

func runConsumerFaults(ctx context.Context, e *env) (_ figures, err error) {
	f := &faultsRun{env: e, figs: figures{}}
	defer func() {
		for i := len(f.undo) - 1; i >= 0; i-- {
			err = errors.Join(err, f.undo[i]())
		}
	}()
	if err := f.open(ctx); err != nil {
		return nil, err
	}
	if err := f.round(ctx, "calm", func() error { return nil }, nil, ""); err != nil {
		return f.figs, err
	}
	goroutines := runtime.NumGoroutine()
	for _, part := range []func(context.Context) error{
		f.deleted, f.stopped, f.timeout, f.noStep, f.noExchange, f.noDatabase, f.noProvider,
	} {
		if err := part(ctx); err != nil {
			return f.figs, err
		}
	}
	f.baseline(ctx, goroutines)
	letters, err := f.broker.Drain("dead")
	f.Breaches.Equal("dead letters", len(letters), 1) // that of the missing exchange
	return f.figs, err
}

func (f *faultsRun) open(ctx context.Context) (err error) {
	if f.node, err = amqptest.NewNode(ctx, "", amqptest.Options{}); err != nil {
		return err
	}
	f.undo = append(f.undo, f.node.Close)
	if f.maria, err = dbtest.NewMariaDB(ctx, "", dbtest.MariaDBOptions{}); err != nil {
		return err
	}
	f.undo = append(f.undo, f.maria.Close)
	schema, err := f.maria.NewSchema(ctx)
	if err != nil {
		return err
	}
	if f.db, err = sql.Open("mysql", f.maria.DSN(schema)); err != nil {
		return err
	}
	f.undo = append(f.undo, f.db.Close)
	if _, err := f.db.ExecContext(ctx, "CREATE TABLE effect (id VARCHAR(64))"); err != nil {
		return err
	}
	if err := f.connect(); err != nil {
		return err
	}
	f.figs["rabbitmq"] = f.broker.Version()
	f.in = newIntake(f.broker, "work", []time.Duration{200 * time.Millisecond, time.Second})
	f.in.answer, f.in.queue.ConsumerTimeout = f.answer, faultsTimeout
	f.in.queue.Deadline, f.in.queue.Prefetch, f.in.queue.Handlers = time.Second, 20, 10
	if err := f.broker.Work(f.in.ladder, "dead"); err != nil {
		return err
	}
	if err := f.in.start(f.node.URL()); err != nil {
		return err
	}
	f.undo = append(f.undo, func() error { return f.in.stop() })
	return nil
}

// connect gives the check's own client a new connection.
func (f *faultsRun) connect() (err error) {
	f.broker, err = amqptest.Dial(f.node.URL())
	if f.in != nil {
		f.in.broker = f.broker
	}
	return err
}

// answer is the handler: an effect in the database, and a provider that may be away.
func (f *faultsRun) answer(ctx context.Context, m *consumer.Message) error {
	switch {
	case f.slow.CompareAndSwap(true, false):
		<-time.After(8 * time.Second) // deaf to its context, beyond the consumer timeout
		return nil
	case f.away.Load():
		return consumer.Unavailable(errors.New("the provider does not answer"))
	case f.permanent.CompareAndSwap(true, false):
		return consumer.Permanent(errors.New("no such order"))
	case f.fail.CompareAndSwap(true, false):
		return errors.New("once")
	}
	if _, err := f.db.ExecContext(ctx, "INSERT INTO effect VALUES (?)", m.ID); err != nil {
		return consumer.Unavailable(err)
	}
	return nil
}

// round publishes messages while a fault is there, waits for the state that it leads to, ends it, and waits until each
// message has its effect.
func (f *faultsRun) round(ctx context.Context, name string, begin, end func() error, want consumer.State) error {
	if err := begin(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	ids := numbered(name, faultsEach)
	failed := f.in.Stats()[0].CopiesFailed
	since := time.Now()
	if want != consumer.StateConnecting && want != consumer.StateMissing { // else nobody takes them
		if err := f.in.publish(ctx, ids...); err != nil {
			return err
		}
	}
	if want != "" {
		if err := f.in.is(ctx, want); err != nil {
			f.Breaches.Add("%s: %v", name, err)
		}
		<-time.After(3 * time.Second) // further tries, in vain
		tries := f.in.Stats()[0].CopiesFailed - failed
		limit := uint64(f.in.queue.Handlers) + uint64(time.Since(since)/(500*time.Millisecond))
		f.Breaches.AtMost(name+": tries to copy", int64(tries), int64(limit))
	}
	if end != nil {
		if err := end(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if want == consumer.StateConnecting || want == consumer.StateMissing {
		if err := f.in.publish(ctx, ids...); err != nil {
			return err
		}
	}
	if err := f.in.is(ctx, consumer.StateConsuming); err != nil {
		f.Breaches.Add("%s: %v", name, err)
	}
	missing := -1
	err := until(ctx, time.Minute, "each message has its effect", func(ctx context.Context) (bool, error) {
		var n int
		err := f.db.QueryRowContext(ctx, "SELECT COUNT(DISTINCT id) FROM effect WHERE id LIKE ?", name+"-%").Scan(&n)
		missing = faultsEach - n
		return missing <= f.spared(name), err
	})
	if err != nil {
		f.Breaches.Add("%s: %v: %d have none", name, err, missing)
	}
	f.figs[name+"_seconds"] = time.Since(since).Seconds()
	return nil
}

// spared is how many of a round's messages have no effect in the database: the dead letter, and the one whose handler
// slept.
func (f *faultsRun) spared(name string) int { return btoi(name == "exchange") }

func (f *faultsRun) deleted(ctx context.Context) error {
	return f.round(ctx, "deleted", func() error { return f.broker.DeleteQueue("work") },
		func() error { return f.broker.Work(f.in.ladder, "dead") }, consumer.StateMissing)
}

func (f *faultsRun) stopped(ctx context.Context) error {
	if err := f.node.FlushQueues(); err != nil {
		return err
	}
	return f.round(ctx, "stopped", f.node.Stop, func() error {
		return errors.Join(f.node.Start(ctx), f.connect())
	}, consumer.StateConnecting)
}

// timeout has a handler that is deaf to its context for longer than the broker waits.
func (f *faultsRun) timeout(ctx context.Context) error {
	lost := f.in.Stats()[0].Lost
	set := func(ms int) error {
		_, err := f.node.Eval(fmt.Sprintf("application:set_env(rabbit, consumer_timeout, %d), "+
			"application:set_env(rabbit, channel_tick_interval, 500).", ms))
		return err
	}
	if err := set(2000); err != nil {
		return err
	}
	if err := f.node.CloseAllConnections(); err != nil { // channels read the interval when they are opened
		return err
	}
	if err := f.connect(); err != nil {
		return err
	}
	f.slow.Store(true)
	err := f.round(ctx, "timeout", func() error { return nil }, nil, "")
	f.Breaches.AtLeast("deliveries lost by the consumer timeout", int64(f.in.Stats()[0].Lost-lost), 1)
	return errors.Join(err, set(1_800_000))
}

func (f *faultsRun) noStep(ctx context.Context) error {
	f.fail.Store(true)
	return f.round(ctx, "step", func() error { return f.broker.DeleteQueue(f.in.ladder.StepQueue(0)) },
		func() error { return f.broker.Step(f.in.ladder, 0) }, consumer.StateStuck)
}

func (f *faultsRun) noExchange(ctx context.Context) error {
	f.permanent.Store(true)
	return f.round(ctx, "exchange", func() error { return f.broker.DeleteExchange("dead") }, func() error {
		return errors.Join(f.broker.Exchange("dead", "fanout", nil), f.broker.Bind("dead", "dead", ""))
	}, consumer.StateStuck)
}

func (f *faultsRun) noDatabase(ctx context.Context) error {
	return f.round(ctx, "database", f.maria.Stop, func() error {
		<-time.After(faultsDatabase)
		return f.maria.Start(ctx)
	}, consumer.StateUnavailable)
}

func (f *faultsRun) noProvider(ctx context.Context) error {
	f.figs["provider_away_of_consumer_timeout"] = faultsProvider.Seconds() / faultsTimeout.Seconds()
	return f.round(ctx, "provider", func() error { f.away.Store(true); return nil }, func() error {
		<-time.After(faultsProvider)
		f.away.Store(false)
		return nil
	}, consumer.StateUnavailable)
}

// baseline compares goroutines and channels with before.
func (f *faultsRun) baseline(ctx context.Context, goroutines int) {
	if err := until(ctx, time.Minute, "goroutines and channels are as before", func(context.Context) (bool, error) {
		channels, err := f.node.Channels()
		f.figs["channels"], f.figs["goroutines"] = channels, runtime.NumGoroutine()-goroutines
		// The check's own, one to consume, and the sender's two. The pool of the database grows by use.
		return channels <= 4 && runtime.NumGoroutine() <= goroutines+20, err
	}); err != nil {
		f.Breaches.Add("%v: %v channels, %v goroutines more", err, f.figs["channels"], f.figs["goroutines"])
	}
	for _, s := range []consumer.State{
		consumer.StateMissing, consumer.StateConnecting, consumer.StateStuck, consumer.StateUnavailable,
	} {
		f.Breaches.AtLeast("times that health was "+string(s), int64(f.in.began(s)), 1)
	}
}
