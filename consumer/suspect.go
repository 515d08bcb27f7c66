package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/transmsg/transmsg/model"
)

const (
	causeCrashed   = model.CauseCrashed
	causePermanent = model.CausePermanent
	causeExhausted = model.CauseExhausted
)

const (
	// freeDeliveries is how many deliveries by the broker's count are no evidence yet: every message that was
	// delivered when a process ended has one, and one that goes back when suspects are met among others has more.
	freeDeliveries = 3
	// orderedDeliveries bounds what an ordered queue's message may be delivered without an end, where nothing else
	// counts: a copy would lose its place.
	orderedDeliveries = 20
)

// errCrashed: the message is taken for what ended its processes.
var errCrashed = errors.New("the process that handled it ended each time")

// hasEvidence reports whether d was delivered so often that more than bad luck may be behind it.
func (d *delivery) hasEvidence() bool {
	return d.crashes > 0 || d.m.DeliveryCount < 0 || d.m.DeliveryCount >= freeDeliveries
}

// weigh decides about a suspect before its turn. Where no counter is there to write down that it is about to be handled
// alone, a copy is: it takes the message's place, at the end of the queue, with the count in a header. So each count is
// one time that a handler had the message and nothing else was near.
func (q *queue) weigh(d *delivery) (r Result, ended bool) {
	switch {
	case !d.raw.Redelivered, !d.hasEvidence(): // a copy that nobody had yet, or nothing to count
		return 0, false
	case q.cfg.Ordered, q.c.cfg.Redeliveries != nil && d.m.ID != "":
		return 0, false // counted when its turn has come
	}
	return q.recount(d)
}

// recount replaces a suspect by a copy with a higher count, or gives it up.
func (q *queue) recount(d *delivery) (r Result, ended bool) {
	if d.crashes >= q.cfg.MaxCrashes {
		return q.giveUp(d, fmt.Errorf("%w (%d times alone)", errCrashed, d.crashes), causeCrashed), true
	}
	if why := q.send(d, q.toItself(d, d.crashes+1)); why != nil {
		return d.drop(why), true
	}
	return d.ack(Recounted), true
}

// putAside puts a copy that carries a count to the queue's end as it is: one of its kind is being handled.
func (q *queue) putAside(d *delivery) {
	if why := q.send(d, q.toItself(d, d.crashes)); why != nil {
		d.end(d.drop(why))
		return
	}
	d.end(d.ack(Recounted))
}

// countAlone writes down that a suspect is about to be handled, and nothing else. The error is errCrashed, Unavailable,
// or why the delivery has its end.
func (q *queue) countAlone(d *delivery) error {
	if !d.raw.Redelivered || !d.hasEvidence() {
		return nil
	}
	counter := q.c.cfg.Redeliveries
	if counter == nil || d.m.ID == "" {
		if q.cfg.Ordered && d.m.DeliveryCount >= orderedDeliveries {
			return fmt.Errorf("%w (%d deliveries)", errCrashed, d.m.DeliveryCount)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(d.s.calls, q.cfg.Deadline)
	defer cancel()
	n, err := counter.CountRedelivery(ctx, d.m)
	switch {
	case errors.Is(err, ErrNotCounted):
		return nil
	case err != nil && context.Cause(d.s.calls) != nil:
		return context.Cause(d.s.calls)
	case err != nil:
		return Unavailable(fmt.Errorf("count the redelivery: %w", err))
	case n > q.cfg.MaxCrashes:
		return fmt.Errorf("%w (%d times alone)", errCrashed, n-1)
	}
	return nil
}
