package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// harvest takes all that is in a queue and returns it in order. It puts a mark
// of its own at the queue's end and reads up to it, so that it neither waits for
// a duration nor misses what came before.
func (w *world) harvest(ctx context.Context, queue string) ([]amqp.Delivery, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	client, err := w.client()
	if err != nil {
		return nil, err
	}
	mark := "mark-" + uuid.NewString()
	end := amqp.Publishing{MessageId: mark, DeliveryMode: amqp.Persistent}
	if err := client.Publish(ctx, "", queue, end); err != nil {
		return nil, fmt.Errorf("mark the end of %s: %w", queue, err)
	}
	conn, err := amqp.Dial(w.url)
	if err != nil {
		return nil, fmt.Errorf("harvest %s: %w", queue, err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("harvest %s: %w", queue, err)
	}
	deliveries, err := ch.Consume(queue, "", true, false, false, false, nil)
	if err != nil {
		return nil, fmt.Errorf("harvest %s: %w", queue, err)
	}
	var got []amqp.Delivery
	for {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return nil, fmt.Errorf("harvest %s: the consumer ended after %d messages", queue, len(got))
			}
			if d.MessageId == mark {
				return got, nil
			}
			got = append(got, d)
		case <-ctx.Done():
			return nil, fmt.Errorf("harvest %s: %d messages and no end: %w", queue, len(got), ctx.Err())
		}
	}
}

// times counts the deliveries of each message id.
func times(deliveries []amqp.Delivery) map[string]int {
	n := map[string]int{}
	for _, d := range deliveries {
		n[d.MessageId]++
	}
	return n
}

// mailbox is a consumer that goes on over outages of its broker, as a service's
// would, and notes when each message first arrived.
type mailbox struct {
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	first   map[string]time.Time
	repeats int
}

// openMailbox starts the consumer; the caller calls close.
func openMailbox(ctx context.Context, url, queue string) *mailbox {
	ctx, cancel := context.WithCancel(ctx)
	m := &mailbox{stop: cancel, done: make(chan struct{}), first: map[string]time.Time{}}
	go func() {
		defer close(m.done)
		retry := time.NewTicker(50 * time.Millisecond)
		defer retry.Stop()
		for ctx.Err() == nil {
			_ = m.consume(ctx, url, queue) // The broker is down: that is what it is for.
			select {
			case <-retry.C:
			case <-ctx.Done():
			}
		}
	}()
	return m
}

func (m *mailbox) close() error {
	m.stop()
	<-m.done
	return nil
}

func (m *mailbox) consume(ctx context.Context, url, queue string) error {
	conn, err := amqp.DialConfig(url, amqp.Config{Dial: amqp.DefaultDial(time.Second), Heartbeat: 5 * time.Second})
	if err != nil {
		return err
	}
	defer conn.CloseDeadline(time.Now().Add(time.Second)) //nolint:errcheck // the broker may be gone
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Qos(1000, 0, false); err != nil {
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
			m.note(d)
			if err := d.Ack(false); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *mailbox) note(d amqp.Delivery) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, seen := m.first[d.MessageId]; !seen {
		m.first[d.MessageId] = now
		return
	}
	if !d.Redelivered { // A redelivery is the broker's repeat, not ours.
		m.repeats++
	}
}

// arrived says how many of the ids have arrived and when the last of them did.
func (m *mailbox) arrived(ids []string) (n int, last time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		at, ok := m.first[id]
		if !ok {
			continue
		}
		n++
		if at.After(last) {
			last = at
		}
	}
	return n, last
}

func (m *mailbox) repeated() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.repeats
}
