package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
)

// run is one run from boot to verdict.
type run struct {
	*world
	opts    options
	plan    []step
	fleet   *fleet
	book    *book
	counter *counter
	faults  []done
	begin   int64 // Unix ns: traffic begins
	end     int64 // publishers are told to stop
	rows    []row
	samples []sample
	there   []string // publishers that were at work then
	left    []string // what has not come back to its baseline
	effects map[string]int
	dead    []string // dead letters
}

// execute does a run. Whatever could not be carried out is in the summary, which then does
// not pass.
func execute(ctx context.Context, o options, plan []step, log *slog.Logger) summary {
	r := &run{opts: o, plan: plan, book: newBook()}
	err := r.run(ctx, log)
	sum := r.summarize(err)
	if r.world != nil {
		if err := r.close(); err != nil {
			log.Error("clean up", "error", err)
			sum.fail("%v", err)
		}
	}
	return sum
}

func (r *run) run(ctx context.Context, log *slog.Logger) (err error) {
	if r.world, err = openWorld(ctx, r.opts, log); err != nil {
		return err
	}
	r.fleet = &fleet{world: r.world, book: r.book, opts: r.opts}
	r.later(r.fleet.close)
	var urls []string
	for _, n := range r.nodes {
		urls = append(urls, n.URL())
	}
	r.counter = openCounter(ctx, urls, slices.DeleteFunc(queues(), func(q string) bool {
		return r.opts.consumers && q == queueQuorum
	}))
	r.later(r.counter.close)
	for range publishers {
		if err := r.fleet.launch(rolePublisher); err != nil {
			return err
		}
	}
	for range compensators {
		if err := r.fleet.launch(roleCompensator); err != nil {
			return err
		}
	}
	if r.opts.consumers {
		for range consumers {
			if err := r.fleet.launch(roleConsumer); err != nil {
				return err
			}
		}
	}
	if err := until(ctx, time.Minute, "traffic flows", func() bool { return r.counter.deliveries() > 0 }); err != nil {
		return err
	}
	r.begin = time.Now().UnixNano()
	stopSampling := func() {}
	if r.opts.samples != "" {
		stopSampling = r.sampler(ctx)
	}
	err = r.follow(ctx)
	stopSampling()
	if err != nil {
		return err
	}
	if r.left, err = r.baseline(ctx); err != nil {
		return err
	}
	r.end = time.Now().UnixNano()
	for _, m := range r.fleet.living(rolePublisher) {
		r.there = append(r.there, m.spec.Name)
	}
	return r.drain(ctx)
}

// follow carries out the plan, one fault after the other.
func (r *run) follow(ctx context.Context) error {
	start := time.Now()
	for _, s := range r.plan {
		if err := sleep(ctx, time.Until(start.Add(s.At))); err != nil {
			return err
		}
		f := &fault{
			world: r.world, fleet: r.fleet, book: r.book, counter: r.counter, step: s,
			rng: rand.New(rand.NewPCG(s.Draw, 3)),
		}
		r.faults = append(r.faults, f.run(ctx))
	}
	return sleep(ctx, time.Until(start.Add(r.opts.length())))
}

// drainStuck is how long the number of rows may stand still while everything is well.
const drainStuck = time.Minute

// drain stops the publishers, lets the compensators empty the table, and reads all queues
// to their ends.
func (r *run) drain(ctx context.Context) error {
	if err := r.fleet.stopAll(rolePublisher); err != nil {
		return err
	}
	if err := r.emptied(ctx); err != nil {
		return err
	}
	if err := r.fleet.stopAll(roleCompensator); err != nil {
		return err
	}
	if err := r.readQueues(ctx); err != nil {
		return err
	}
	if err := r.endConsumers(ctx); err != nil {
		return err
	}
	var err error
	if r.rows, err = readRows(ctx, r.db.pool()); err != nil {
		return err
	}
	return r.book.refresh()
}

// emptied waits until no message is READY, or until they are no longer becoming fewer.
func (r *run) emptied(ctx context.Context) error {
	least, since := -1, time.Now()
	for {
		n, err := countReady(ctx, r.db.pool(), r.opts.mode != "")
		switch {
		case err != nil:
			return err
		case n == 0:
			return nil
		case least < 0 || n < least:
			least, since = n, time.Now()
		case time.Since(since) > drainStuck:
			r.log.Error("rows stay READY while everything is well", "rows", n)
			return nil
		}
		if err := sleep(ctx, 250*time.Millisecond); err != nil {
			return err
		}
	}
}

// readQueues puts a mark at the end of each queue and waits until the consumer has read it.
func (r *run) readQueues(ctx context.Context) error {
	for _, queue := range queues() {
		mark := uuid.NewString()
		put := func() error {
			return r.topology(func(c *amqptest.Client) error {
				return c.Publish(ctx, "", queue, amqp.Publishing{
					MessageId: mark, Type: markType, DeliveryMode: amqp.Persistent,
				})
			})
		}
		var err error
		// The small queue may be full for a moment.
		if waited := until(ctx, time.Minute, "queue "+queue+" takes a mark", func() bool {
			err = put()
			return err == nil
		}); waited != nil {
			return errors.Join(waited, err)
		}
		if err := until(ctx, 2*time.Minute, "the consumer has read "+queue+" to its end",
			func() bool { return r.counter.markSeen(mark) || r.book.markHandled(mark) }); err != nil {
			return fmt.Errorf("%w", err)
		}
	}
	return nil
}
