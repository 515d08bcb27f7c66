package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

const (
	countsTotal   = 20000
	countsCallers = 64
)

// fate is what the topology does with a message.
type fate int

const (
	toQueue fate = iota
	toNobody
	toFull
)

// fateOf says it for message n, counted from 1.
func fateOf(n int) fate {
	switch {
	case n%7 == 0: // also the multiples of 77
		return toNobody
	case n%11 == 0:
		return toFull
	default:
		return toQueue
	}
}

// countsCheck publishes into a queue, into nothing and into a full queue, with
// no compensator, and counts what is where.
func countsCheck() check {
	return check{
		name:  "counts",
		about: "20,000 messages, some unroutable, some refused: the table has exactly those, the queue the others once",
		run: inWorld(worldOptions{}, func(ctx context.Context, w *world) (figures, error) {
			c := &counts{world: w}
			if err := c.prepare(ctx); err != nil {
				return nil, err
			}
			return c.run(ctx)
		}),
	}
}

type counts struct {
	*world
	exchange, queue, full string
	keys                  map[fate]string
	filled                int
	messages              []model.Message      // message n is at n-1
	receipts              []*publisher.Receipt // the same
}

// prepare makes the topology, fills the queue that refuses, and plans.
func (c *counts) prepare(ctx context.Context) error {
	c.exchange, c.queue, c.full = c.name("ex"), c.name("main"), c.name("full")
	c.keys = map[fate]string{toQueue: c.name("ok"), toNobody: c.name("unbound"), toFull: c.name("refused")}
	kind := []string{amqptest.Classic, amqptest.Quorum}[c.Rand.IntN(2)]
	limit := 1 + c.Rand.IntN(30)
	for _, err := range []error{
		c.broker.Exchange(c.exchange, "direct", nil),
		c.broker.Queue(amqptest.QueueSpec{Name: c.queue, Type: kind}),
		c.broker.Queue(amqptest.QueueSpec{Name: c.full, Args: amqp.Table{
			"x-max-length": int32(limit), "x-overflow": "reject-publish",
		}}),
		c.broker.Bind(c.queue, c.exchange, c.keys[toQueue]),
		c.broker.Bind(c.full, c.exchange, c.keys[toFull]),
	} {
		if err != nil {
			return err
		}
	}
	// Filled until the broker says that it is full.
	for c.filled = 0; c.broker.Publish(ctx, "", c.full, amqp.Publishing{}) == nil; c.filled++ {
		if c.filled > limit+100 {
			return fmt.Errorf("a queue of %d messages took %d", limit, c.filled)
		}
	}
	c.receipts = make([]*publisher.Receipt, countsTotal)
	for n := 1; n <= countsTotal; n++ {
		c.messages = append(c.messages, c.message(c.exchange, c.keys[fateOf(n)], n, 2048))
	}
	return nil
}

func (c *counts) run(ctx context.Context) (figures, error) {
	svc, err := c.service(ctx, serviceSpec{})
	if err != nil {
		return nil, err
	}
	if err := svc.ready(ctx); err != nil {
		return nil, err
	}
	begin := time.Now()
	c.publish(ctx, svc.pub)
	kinds, err := c.outcomes(ctx)
	if err != nil {
		return nil, err
	}
	seconds := time.Since(begin).Seconds()
	if err := svc.close(ctx); err != nil {
		return nil, err
	}
	figs := figures{"published": countsTotal, "outcomes": kinds, "per_second": int(countsTotal / seconds)}
	if err := c.checkTable(ctx, figs); err != nil {
		return figs, err
	}
	return figs, c.checkQueues(ctx, figs)
}

// publish publishes all in a seeded order from 64 goroutines.
func (c *counts) publish(ctx context.Context, pub *publisher.Publisher) {
	work := make(chan int)
	var callers sync.WaitGroup
	for range countsCallers {
		callers.Go(func() {
			for i := range work {
				ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
				receipt, err := pub.Publish(ctx, c.messages[i])
				cancel()
				if c.Breaches.Check(err == nil, "publish %d: %v", i+1, err) {
					c.receipts[i] = receipt
				}
			}
		})
	}
	for _, i := range c.Rand.Perm(countsTotal) {
		work <- i
	}
	close(work)
	callers.Wait()
}

// outcomes waits for every receipt and compares it with the message's fate.
func (c *counts) outcomes(ctx context.Context) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	want := map[fate]model.OutcomeKind{toQueue: model.Acked, toNobody: model.Returned, toFull: model.Nacked}
	kinds, wrong := map[string]int{}, 0
	for i, receipt := range c.receipts {
		if receipt == nil {
			continue
		}
		o, err := receipt.Wait(ctx)
		if err != nil {
			return kinds, fmt.Errorf("outcome of message %d: %w", i+1, err)
		}
		kinds[o.Kind.String()]++
		if o.Kind != want[fateOf(i+1)] {
			wrong++
		}
	}
	c.Breaches.Equal("receipts with another outcome than the broker's", wrong, 0)
	return kinds, nil
}

// checkTable compares the rows left with the returned and the nacked, one by one.
func (c *counts) checkTable(ctx context.Context, figs figures) error {
	rows, err := c.db.rows(ctx)
	if err != nil {
		return err
	}
	code := map[fate]string{toNobody: "312", toFull: "nack"}
	left, missing, wrong, want := map[string]int{}, 0, 0, map[string]int{}
	for i, receipt := range c.receipts {
		if f := fateOf(i + 1); f != toQueue && receipt != nil {
			want[code[f]]++
			r, ok := rows[receipt.ID()]
			delete(rows, receipt.ID())
			switch {
			case !ok:
				missing++
			case r.Code != code[f] || r.Status != "READY" || r.Attempts != 1 || r.Key != c.keys[f]:
				wrong++
			default:
				left[r.Code]++
			}
		}
	}
	c.Breaches.Equal("rows by cause", left, want)
	c.Breaches.Equal("rows missing", missing, 0)
	c.Breaches.Equal("rows with another cause, status or number of attempts", wrong, 0)
	c.Breaches.Equal("rows of messages that were delivered", len(rows), 0)
	figs["rows"] = left
	return nil
}

// checkQueues compares what the queue holds with the others, body by body.
func (c *counts) checkQueues(ctx context.Context, figs figures) error {
	got, err := c.harvest(ctx, c.queue)
	if err != nil {
		return err
	}
	seen, foreign := map[int]int{}, 0
	for _, d := range got {
		n, err := strconv.Atoi(d.CorrelationId)
		if err != nil || n < 1 || n > countsTotal || fateOf(n) != toQueue || c.receipts[n-1] == nil ||
			c.receipts[n-1].ID() != d.MessageId || !bytes.Equal(c.messages[n-1].Body, d.Body) {
			foreign++
			continue
		}
		seen[n]++
	}
	missing, repeated, want := 0, 0, 0
	for n := 1; n <= countsTotal; n++ {
		if fateOf(n) == toQueue {
			want++
			missing += max(0, 1-seen[n])
			repeated += max(0, seen[n]-1)
		}
	}
	c.Breaches.Equal("messages in the queue", len(got), want)
	c.Breaches.Equal("messages missing from the queue", missing, 0)
	c.Breaches.Equal("messages twice in the queue", repeated, 0)
	c.Breaches.Equal("messages in the queue that are not its own or changed", foreign, 0)
	full, err := c.broker.Depth(c.full)
	if err != nil {
		return err
	}
	c.Breaches.Equal("messages in the full queue", full, c.filled)
	figs["delivered"] = len(got)
	return nil
}
