package collector

import (
	"context"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/broker"
	"github.com/transmsg/transmsg/model"
)

// linger is how long a batch waits for more letters.
const linger = 20 * time.Millisecond

// queue collects one dead-letter queue, over one channel at a time.
type queue struct {
	c    *Collector
	name string

	mu    sync.Mutex
	state State
}

func newQueue(c *Collector, name string) *queue {
	return &queue{c: c, name: name, state: State{Queue: name, Reason: "not begun"}}
}

func (q *queue) note(reason string) { q.change(func(s *State) { s.Reason = reason }) }

func (q *queue) change(f func(*State)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f(&q.state)
}

func (q *queue) snapshot() State {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state
}

// serve subscribes again and again until ctx or the connection ends.
func (q *queue) serve(ctx context.Context, d *broker.Dialled) {
	for failed := 0; ctx.Err() == nil && !d.Conn.IsClosed(); failed++ {
		s, err := q.subscribe(d)
		if err == nil {
			q.note("")
			failed = 0
			err = s.collect(ctx)
		}
		if err != nil && ctx.Err() == nil {
			q.note(model.CleanText(err.Error()))
			q.c.log.Warn("not collecting", "queue", q.name, "error", err)
			broker.Sleep(ctx, backoff(failed))
		}
	}
}

// backoff grows from minBackoff to maxBackoff.
func backoff(failed int) time.Duration {
	return broker.Jitter(min(maxBackoff, minBackoff<<min(failed, 10)))
}

// letter is one delivery and what is made of it.
type letter struct {
	tag    uint64
	letter model.DeadLetter
	raw    model.Rejected
	why    string // it cannot be stored
}

// subscription is one channel with its consumer.
type subscription struct {
	q          *queue
	d          *broker.Dialled
	ch         *amqp.Channel
	deliveries <-chan amqp.Delivery
	aside      []letter // what cannot be stored and is not set aside yet
	retryAt    time.Time
	failed     int
}

const consumerTag = "collector"

// guarded bounds a call into the library: too late an answer ends the connection, and with it the call.
func (q *queue) guarded(d *broker.Dialled, call func() error) error {
	timer := time.AfterFunc(callTimeout, d.Wire.Kill)
	defer timer.Stop()
	return call()
}

func (q *queue) subscribe(d *broker.Dialled) (*subscription, error) {
	s := &subscription{q: q, d: d}
	err := q.guarded(d, func() (err error) {
		if s.ch, err = d.Conn.Channel(); err != nil {
			return fmt.Errorf("open channel: %w", err)
		}
		if err = s.ch.Qos(q.c.cfg.Prefetch, 0, false); err == nil {
			s.deliveries, err = s.ch.Consume(q.name, consumerTag, false, false, false, false, nil)
		}
		if err != nil {
			_ = s.ch.Close() // closed already, most likely
			return fmt.Errorf("consume %q: %w", q.name, err)
		}
		return nil
	})
	return s, err
}

// collect stores batches until ctx or the channel ends. What it holds then is the queue's again.
func (s *subscription) collect(ctx context.Context) error {
	defer s.close()
	for {
		batch, open := s.batch(ctx)
		if !open {
			return fmt.Errorf("the broker ended the channel or the consumer")
		}
		if len(batch) > 0 {
			if err := s.store(ctx, batch); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if err := s.setAside(ctx); err != nil {
			return err
		}
	}
}

// batch waits for letters, and takes what comes within linger. It returns none when ctx has ended or what is to be set
// aside may be tried again; open is false when the channel has ended.
func (s *subscription) batch(ctx context.Context) (out []letter, open bool) {
	var timer <-chan time.Time
	if len(s.aside) > 0 {
		timer = time.After(max(0, time.Until(s.retryAt)))
	}
	for len(out) < s.q.c.cfg.Prefetch {
		select {
		case raw, ok := <-s.deliveries:
			if !ok {
				return nil, false
			}
			if len(out) == 0 {
				timer = time.After(linger)
			}
			out = append(out, s.letterOf(&raw))
			s.q.change(func(st *State) { st.Held++ })
		case <-timer:
			return out, true
		case <-ctx.Done():
			return out, true
		}
	}
	return out, true
}

func (s *subscription) letterOf(raw *amqp.Delivery) letter {
	r := model.Rejected{
		Source: s.q.name, Exchange: raw.Exchange, RoutingKey: raw.RoutingKey,
		Properties: s.d.Raw.Take(raw.MessageId), Body: raw.Body,
	}
	return letter{tag: raw.DeliveryTag, letter: r.Letter(s.q.c.cfg.Service), raw: r}
}

// close gives back what is not settled: the broker delivers it again, to whoever collects.
func (s *subscription) close() {
	// An error says that the channel is closed, and with it everything is the queue's again.
	_ = s.q.guarded(s.d, func() error { return s.ch.Close() })
	s.q.change(func(st *State) { st.Held = 0 })
}

// ack is told after the letter is kept elsewhere.
func (s *subscription) ack(l *letter) error {
	s.q.change(func(st *State) { st.Held-- })
	if err := s.ch.Ack(l.tag, false); err != nil {
		return fmt.Errorf("ack: %w", err)
	}
	return nil
}
