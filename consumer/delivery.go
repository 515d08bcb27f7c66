package consumer

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// delivery is one message in our hands until its one end.
type delivery struct {
	q   *queue
	s   *subscription
	raw amqp.Delivery
	m   *Message
	at  time.Time // when it came
	// suspect: it was delivered before, and no handler of this process has answered about it. It may end the process.
	suspect bool
	crashes int           // of its header
	called  bool          // a handler has answered
	fresh   bool          // counted in queue.fresh
	kept    bool          // counted in queue.kept
	busy    int           // answers Busy
	elapsed time.Duration // of the last call
	cause   string        // of a dead letter
}

func newDelivery(q *queue, s *subscription, raw amqp.Delivery) *delivery {
	d := &delivery{q: q, s: s, raw: raw, at: time.Now()}
	d.m, d.crashes = q.message(&raw)
	d.suspect = raw.Redelivered || d.crashes > 0
	d.fresh = !d.suspect
	return d
}

// limit is when it goes back, settled or not: well before the consumer timeout.
func (d *delivery) limit() time.Time { return d.at.Add(d.q.cfg.hold()) }

// waiting is the context of a wait that is none of a handler's call.
func (d *delivery) waiting() (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(d.life(), d.limit(), errGiveBack)
}

// life ends when d waits no longer.
func (d *delivery) life() context.Context {
	if d.called {
		return d.s.waits
	}
	return d.s.unbegun
}

// over says why d waits no longer, or nil.
func (d *delivery) over() error {
	if life := d.life(); life.Err() != nil {
		return context.Cause(life)
	}
	if !time.Now().Before(d.limit()) {
		return errGiveBack
	}
	return nil
}

// ack acks it, and reports r, or Lost where its channel is gone.
func (d *delivery) ack(r Result) Result {
	if !d.s.settle(func(ch *amqp.Channel) error { return ch.Ack(d.raw.DeliveryTag, false) }) {
		return Lost
	}
	return r
}

// giveBack returns it to its queue.
func (d *delivery) giveBack() Result {
	if !d.s.settle(func(ch *amqp.Channel) error { return ch.Nack(d.raw.DeliveryTag, false, true) }) {
		return Lost
	}
	return GivenBack
}

// drop ends a delivery that waits no longer, for a reason from waiting or a call.
func (d *delivery) drop(why error) Result {
	if isLost(why) {
		return Lost
	}
	return d.giveBack()
}

// end is told once, when the delivery has its end.
func (d *delivery) end(r Result) {
	q := d.q
	q.mu.Lock()
	left := false
	for _, g := range q.gates() {
		left = g.leave(d) || left
	}
	q.uncount(d)
	if left {
		q.derive()
	}
	full := q.live.Add(-1) == int64(q.cfg.Prefetch)-1
	if left || full {
		q.tell()
	}
	q.mu.Unlock()
	q.stats.add(r)
	e := Event{
		Queue: q.cfg.Name, Result: r, Attempt: d.m.Attempt, Elapsed: d.elapsed, Cause: d.cause,
		EventAge: d.m.age(time.Now()),
	}
	if d.m.First != nil {
		e.SinceFirstFailure = max(time.Since(d.m.First.At), 0)
	}
	q.c.cfg.observer.Settled(e)
	d.s.done()
}

// uncount says that a handler has answered about d, or never will. It needs mu.
func (q *queue) uncount(d *delivery) {
	if d.kept {
		d.kept = false
		q.kept--
		q.tell()
	}
	if d.fresh {
		d.fresh = false
		if q.fresh--; q.fresh == 0 {
			q.tell()
		}
	}
}
