package consumer

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"
)

// Pause takes no new messages from a queue until Resume; what no handler has begun goes back, what is handled is
// finished. Pausing a paused queue changes nothing. The error says that the queue is not consumed here.
func (c *Consumer) Pause(queue string) error { return c.setPaused(queue, true) }

// Resume ends a Pause.
func (c *Consumer) Resume(queue string) error { return c.setPaused(queue, false) }

func (c *Consumer) setPaused(name string, paused bool) error {
	q, err := c.find(name)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.paused != paused {
		q.paused = paused
		q.log.Info("paused by an operator", "paused", paused)
		q.derive()
		q.tell()
	}
	return nil
}

// SetRate bounds the handler calls per second of a queue from now on; 0 is no bound, at most 1,000,000.
func (c *Consumer) SetRate(queue string, perSecond float64) error {
	q, err := c.find(queue)
	if err != nil {
		return err
	}
	if perSecond < 0 || perSecond > maxRate {
		return fmt.Errorf("consumer: rate %g of queue %q must be from 0 to %g per second", perSecond, queue,
			float64(maxRate))
	}
	limit := rate.Limit(perSecond)
	if perSecond == 0 {
		limit = rate.Inf
	}
	q.rate.SetLimit(limit)
	return nil
}

// Health returns the state of each queue, in the order of the config.
func (c *Consumer) Health() []QueueHealth {
	all := make([]QueueHealth, len(c.queues))
	for i, q := range c.queues {
		q.mu.Lock()
		all[i] = q.health
		q.mu.Unlock()
	}
	return all
}

// note remembers a state that comes from outside the gates.
func (q *queue) note(s State, reason string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.base, q.missing, q.alone = s, reason, false
	q.derive()
}

func (q *queue) noteMissing(reason string) {
	q.note(StateMissing, reason)
	q.log.Warn("no subscription", "reason", reason)
}

func (q *queue) noteConsuming(alone bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.base, q.missing, q.alone = StateConsuming, "", alone
	q.derive()
}

// derive sets the state from what is known, and tells of another one. It needs mu.
func (q *queue) derive() {
	h := QueueHealth{Queue: q.cfg.Name, State: q.base, Reason: q.missing, Alone: q.alone}
	switch shut := q.firstShut(); {
	case q.ended:
		h.State, h.Reason = StateStopped, ""
	case q.paused:
		h.State, h.Reason = StatePaused, ""
	case h.State != StateConsuming && h.State != StateStopped && shut == nil:
	case shut == q.away && shut != nil:
		h.State, h.Reason = StateUnavailable, shut.reason
	case shut != nil:
		h.State, h.Reason = StateStuck, shut.reason
	}
	if h.State == q.health.State && h.Reason == q.health.Reason {
		q.health.Alone = h.Alone
		return
	}
	h.Since = time.Now()
	if h.State == q.health.State {
		h.Since = q.health.Since
	}
	q.health = h
	q.c.cfg.observer.StateChanged(h)
}

// firstShut needs mu. What a copy needs comes before what a handler needs.
func (q *queue) firstShut() *gate {
	for _, g := range q.copies {
		if g.shut {
			return g
		}
	}
	if q.away.shut {
		return q.away
	}
	return nil
}
