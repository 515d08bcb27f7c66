package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// place is where a message arrived.
type place struct{ id, queue string }

// arrivals of one message in one queue.
type arrivals struct {
	plain       []int64 // Unix ns; the first copy of each publish
	redelivered int     // the broker's own repeats
}

// counter consumes all queues over faults of the broker, as a service would, and counts.
// Its own connection does not go through the proxy.
type counter struct {
	urls   []string // of the nodes, dialled in turn
	queues []string // all, or all but the one that the product consumes
	stop   context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	got     map[place]*arrivals
	changed []string // ids whose body is not the one that was published
	times   []int64  // of all deliveries
	dials   []int64  // of all connections
	marks   map[string]bool
	paused  string             // a queue that is not consumed for now
	cut     context.CancelFunc // ends the present connection
}

func openCounter(ctx context.Context, urls, queues []string) *counter {
	ctx, stop := context.WithCancel(ctx)
	c := &counter{
		urls: urls, queues: queues, stop: stop, done: make(chan struct{}),
		got: map[place]*arrivals{}, marks: map[string]bool{},
		cut: func() {},
	}
	go func() {
		defer close(c.done)
		for turn := 0; ctx.Err() == nil; turn++ {
			_ = c.session(ctx, c.urls[turn%len(c.urls)]) // the broker is gone, or the consumed queues change
			select {
			case <-time.After(100 * time.Millisecond): // the interval of redialling
			case <-ctx.Done():
			}
		}
	}()
	return c
}

func (c *counter) close() error {
	c.stop()
	<-c.done
	return nil
}

// pause stops consuming one queue; "" consumes all again.
func (c *counter) pause(queue string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = queue
	c.cut()
}

// session is one connection.
func (c *counter) session(ctx context.Context, url string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.mu.Lock()
	paused := c.paused
	c.cut = cancel
	c.mu.Unlock()
	cfg := amqp.Config{Dial: amqp.DefaultDial(2 * time.Second), Heartbeat: 5 * time.Second}
	conn, err := amqp.DialConfig(url, cfg)
	if err != nil {
		return err
	}
	defer conn.CloseDeadline(time.Now().Add(time.Second)) //nolint:errcheck // the broker may be gone
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	c.mu.Lock()
	c.dials = append(c.dials, time.Now().UnixNano())
	c.mu.Unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, queue := range c.queues {
		if queue == paused {
			continue
		}
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		wg.Go(func() {
			defer cancel() // one queue's end ends all: a dead channel would be a silent queue
			_ = c.consume(ctx, ch, queue)
		})
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-closed: // nil for an orderly end
		return fmt.Errorf("connection closed: %w", err)
	}
}

func (c *counter) consume(ctx context.Context, ch *amqp.Channel, queue string) error {
	if err := ch.Qos(200, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return errors.New("the consumer ended")
			}
			c.note(queue, d)
			if err := d.Ack(false); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *counter) note(queue string, d amqp.Delivery) {
	now := time.Now().UnixNano()
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.Type == markType {
		c.marks[d.MessageId] = true
		return
	}
	if !bytes.Equal(d.Body, bodyOf(d.MessageId)) {
		c.changed = append(c.changed, d.MessageId)
	}
	c.times = append(c.times, now)
	at := place{d.MessageId, queue}
	a := c.got[at]
	if a == nil {
		a = &arrivals{}
		c.got[at] = a
	}
	if d.Redelivered {
		a.redelivered++
		return
	}
	a.plain = append(a.plain, now)
}

// markType is the type of messages that mark the end of a queue.
const markType = "chaos-end"

// markSeen says whether the mark with this id has arrived.
func (c *counter) markSeen(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.marks[id]
}

// deliveries is the number of deliveries so far.
func (c *counter) deliveries() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.times)
}

// reconnectedBetween says whether the consumer dialled in the time: the broker may then
// have delivered again what it had delivered before, also without saying so (after a kill
// it has forgotten).
func (c *counter) reconnectedBetween(from, to int64) bool {
	return slices.ContainsFunc(c.dials, func(at int64) bool { return at >= from && at <= to })
}
