package consumer

import (
	"context"
	"errors"
	"time"

	"golang.org/x/time/rate"
)

func isLost(err error) bool { return errors.Is(err, ErrLost) }

// await waits until ready says so; it is asked with the queue's mu held, again at the time that it names and whenever
// something of the queue changes. Once it has said so await returns nil, so that ready may take what it grants. The
// error says why d waits no longer.
func (q *queue) await(d *delivery, ready func(now time.Time) (ok bool, at time.Time)) error {
	var ctx context.Context // made when there is something to wait for
	for {
		if why := d.over(); why != nil {
			return why
		}
		q.mu.Lock()
		ok, at := ready(time.Now())
		changed := q.changed
		q.mu.Unlock()
		if ok {
			return nil
		}
		if ctx == nil {
			var cancel context.CancelFunc
			ctx, cancel = d.waiting()
			defer cancel()
		}
		if at.IsZero() {
			at = time.Now().Add(time.Hour)
		}
		timer := newTimer(at)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// sleep waits for d's own sake.
func (q *queue) sleep(d *delivery, wait time.Duration) error {
	until := time.Now().Add(wait)
	return q.await(d, func(now time.Time) (bool, time.Time) { return !now.Before(until), until })
}

// turn waits until d's handler may be called; release says that the call has ended.
func (q *queue) turn(d *delivery) (release func(), err error) {
	if d.suspect {
		return q.turnAlone(d)
	}
	for {
		if err := q.await(d, func(now time.Time) (bool, time.Time) { return q.gatesPass(d, now) }); err != nil {
			return nil, err
		}
		release, err := q.seat(d, 1)
		if err != nil {
			return nil, err
		}
		// A gate may have been shut while d waited for its seat.
		q.mu.Lock()
		ok, _ := q.gatesPass(d, time.Now())
		q.mu.Unlock()
		if ok {
			return release, nil
		}
		release()
	}
}

// gatesPass needs mu.
func (q *queue) gatesPass(d *delivery, now time.Time) (bool, time.Time) {
	for _, g := range q.copies {
		if g.shut && g.tester != d {
			return false, time.Time{}
		}
	}
	return q.away.pass(d, now)
}

// seat takes one of the queue's handler calls, weight of the process's, and a token of the rate.
func (q *queue) seat(d *delivery, weight int64) (release func(), err error) {
	release = func() {
		q.c.calls.Release(weight)
		q.slots.Release(1)
	}
	if q.slots.TryAcquire(1) {
		if q.c.calls.TryAcquire(weight) {
			if q.rate.Limit() == rate.Inf {
				return release, nil
			}
			q.c.calls.Release(weight)
		}
		q.slots.Release(1)
	}
	ctx, cancel := d.waiting()
	defer cancel()
	if err := q.slots.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	if err := q.c.calls.Acquire(ctx, weight); err != nil {
		q.slots.Release(1)
		return nil, context.Cause(ctx)
	}
	if err := q.rate.Wait(ctx); err != nil {
		release()
		if ctx.Err() == nil { // its turn would be after its limit
			return nil, errGiveBack
		}
		return nil, context.Cause(ctx)
	}
	return release, nil
}

// turnAlone waits until nothing that nobody had before is handled in the queue, and no other suspect. Where the message
// is suspected with evidence it waits until nothing else of the process is handled either: whoever is delivered or
// handled next to it may be taken for what ended the process.
func (q *queue) turnAlone(d *delivery) (release func(), err error) {
	err = q.await(d, func(now time.Time) (bool, time.Time) {
		if q.fresh > 0 || q.busy {
			return false, time.Time{}
		}
		if ok, at := q.gatesPass(d, now); !ok {
			return false, at
		}
		q.busy = true
		return true, time.Time{}
	})
	if err != nil {
		return nil, err
	}
	weight := int64(1)
	if d.hasEvidence() {
		weight = everybody
	}
	unseat, err := q.seat(d, weight)
	if err != nil {
		q.notBusy()
		return nil, err
	}
	return func() {
		unseat()
		q.notBusy()
	}, nil
}

func (q *queue) notBusy() {
	q.mu.Lock()
	q.busy = false
	q.tell()
	q.mu.Unlock()
}
