package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// shift takes deliveries of one subscription until another one must follow. What is then without an end goes on over
// the old channel, in the background (retired).
func (q *queue) shift(ctx context.Context, s *subscription, retired *sync.WaitGroup) next {
	cancels := s.cancels
	for {
		q.mu.Lock()
		rest, changed := q.mustRest(s), q.changed
		q.mu.Unlock()
		if rest {
			q.retire(ctx, s, retired, true)
			return nextAlone
		}
		select {
		case raw, ok := <-s.deliveries:
			if !ok {
				return q.consumerEnded(ctx, s, retired)
			}
			if follow, change := q.take(s, raw); change {
				q.retire(ctx, s, retired, false)
				return follow
			}
		case _, ok := <-cancels:
			if ok {
				return q.consumerCancelled(ctx, s, retired)
			}
			cancels = nil // closed with the channel
		case <-s.dead:
			return q.channelEnded(ctx, s)
		case <-changed:
		case <-ctx.Done():
			q.retire(ctx, s, retired, true)
			return nextEnd
		}
	}
}

// take begins with one delivery, and says whether another subscription must follow.
//
// A message that was delivered before may be what ended a process. It is handled over a channel with a prefetch of 1,
// so that no neighbour is delivered with it: each end of a process counts against all that is delivered to it. Where
// one arrives among others it goes back, those that nobody had before are finished, and then it is met alone.
func (q *queue) take(s *subscription, raw amqp.Delivery) (follow next, change bool) {
	d := newDelivery(q, s, raw)
	switch {
	case s.alone && !d.suspect && !q.cfg.Ordered && !q.anyShut():
		// Begun when the consumer is cancelled: settled before, the next one would be on its way here
		// meanwhile, and the broker may return it.
		q.open(d)
		s.first = d
		return nextFull, true
	case s.alone:
		q.begin(d)
		return nextAlone, false
	case d.suspect:
		q.setAside(d)
		return nextAlone, true
	}
	q.begin(d)
	return nextFull, false
}

// setAside keeps a suspect that came among others until the consumer is cancelled: returned before, it would be
// delivered here again and again until then. A copy that carries a count of its own must not be returned, since that
// would look like the end of a process: the first is handled here once the others have ended.
func (q *queue) setAside(d *delivery) {
	q.open(d)
	if d.s.kept == nil && !d.raw.Redelivered && !d.s.alone {
		d.s.kept = d
		q.mu.Lock()
		d.kept = true
		q.kept++ // until it was handled no subscription follows
		q.mu.Unlock()
		return
	}
	d.s.aside = append(d.s.aside, d)
}

// takeLate deals with what arrived until the consumer was cancelled.
func (q *queue) takeLate(s *subscription, raw amqp.Delivery) {
	d := newDelivery(q, s, raw)
	if d.suspect && !q.cfg.Ordered {
		q.setAside(d)
		return
	}
	q.begin(d)
}

// open counts a delivery; its end is told by d.end.
func (q *queue) open(d *delivery) {
	d.s.add()
	q.live.Add(1)
	q.stats.delivered.Add(1)
	if d.fresh {
		q.mu.Lock()
		q.fresh++
		q.mu.Unlock()
	}
}

// begin starts to work on a delivery.
func (q *queue) begin(d *delivery) {
	q.open(d)
	q.wg.Go(func() { q.work(d) })
}

// retire ends the consumer, and the channel when its last delivery has its end. With shed, what no handler has begun
// goes back.
func (q *queue) retire(ctx context.Context, s *subscription, retired *sync.WaitGroup, shed bool) {
	retired.Go(func() {
		s.stop(func(raw amqp.Delivery) { q.takeLate(s, raw) })
		q.dispose(s)
		if shed {
			s.shed(errGiveBack)
		}
		q.drain(ctx, s)
		s.close()
	})
}

// dispose of what waited for the end of the consumer. Of the suspects, copies that carry a count go to the queue's end
// as they are, others go back.
func (q *queue) dispose(s *subscription) {
	if d := s.first; d != nil {
		q.wg.Go(func() { q.work(d) })
	}
	for _, d := range s.aside {
		if d.raw.Redelivered {
			d.end(d.giveBack())
			continue
		}
		q.wg.Go(func() { q.putAside(d) })
	}
	if d := s.kept; d != nil {
		q.wg.Go(func() { q.work(d) })
	}
}

// drain waits until the deliveries of a cancelled consumer have their ends, as long as there is time.
func (q *queue) drain(ctx context.Context, s *subscription) {
	idle := s.whenIdle()
	select {
	case <-idle:
		return
	case <-s.dead:
		return
	case <-ctx.Done():
	}
	s.shed(errGiveBack)
	s.endWaits(errGiveBack)
	for _, wait := range [...]time.Duration{q.c.cfg.DrainTimeout, lastMoment} {
		timer := time.NewTimer(wait)
		select {
		case <-idle:
		case <-s.dead:
		case <-timer.C:
			s.end(ErrStopping)
			continue
		}
		timer.Stop()
		return
	}
}

// consumerEnded finds out why no deliveries come any more.
func (q *queue) consumerEnded(ctx context.Context, s *subscription, retired *sync.WaitGroup) next {
	if _, ok := <-s.cancels; ok {
		return q.consumerCancelled(ctx, s, retired)
	}
	<-s.dead // cancels was closed with the channel
	return q.channelEnded(ctx, s)
}

// consumerCancelled follows a basic.cancel of the broker: the queue was deleted or lost its node, or a handler exceeded
// the consumer timeout (from 4.3). The whole channel goes, since a later timeout on it may close it under the next
// consumer's acks.
func (q *queue) consumerCancelled(ctx context.Context, s *subscription, retired *sync.WaitGroup) next {
	gone := q.isGone(s.se)
	q.log.Warn("the broker cancelled the consumer", "queue_deleted", gone)
	s.forsake(gone)
	q.noteMissing("the broker cancelled the consumer")
	retired.Go(func() {
		for raw := range s.deliveries {
			if gone {
				q.takeLate(s, raw)
			}
		}
		q.dispose(s)
		if gone {
			q.drain(ctx, s)
		}
		s.close()
	})
	q.pause(ctx, s.se, jittered(firstBackoff))
	return nextAlone
}

// isGone asks whether the queue was deleted.
func (q *queue) isGone(se *session) bool {
	defer se.guard("ask for " + q.cfg.Name)()
	ch, err := se.dialled.Conn.Channel()
	if err != nil {
		return false
	}
	_, err = ch.QueueDeclarePassive(q.cfg.Name, true, false, false, false, nil)
	_ = ch.Close() // closed already where the queue is missing
	var cause *amqp.Error
	return errors.As(err, &cause) && cause.Code == amqp.NotFound
}

// channelEnded follows the end of the channel, alone or with its connection.
func (q *queue) channelEnded(ctx context.Context, s *subscription) next {
	q.forget(s)
	if s.se.isOver() || ctx.Err() != nil {
		return nextEnd
	}
	q.noteMissing(fmt.Sprintf("the broker closed the channel of %s", q.cfg.Name))
	q.pause(ctx, s.se, jittered(firstBackoff))
	return nextAlone
}

// forget ends what was set aside on a channel that has ended. What the client library has buffered is delivered again.
func (q *queue) forget(s *subscription) {
	for range s.deliveries {
		continue
	}
	q.dispose(s)
}
