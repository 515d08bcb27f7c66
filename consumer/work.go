package consumer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// work brings one delivery to its end.
func (q *queue) work(d *delivery) {
	if d.suspect {
		if r, ended := q.weigh(d); ended {
			d.end(r)
			return
		}
	}
	for {
		err, why := q.attempt(d)
		if why != nil {
			d.end(d.drop(why))
			return
		}
		if r, ended := q.conclude(d, err); ended {
			d.end(r)
			return
		}
	}
}

// attempt waits for d's turn and calls the handler. why says that it was not called, or that its answer does not
// count.
func (q *queue) attempt(d *delivery) (err, why error) {
	release, why := q.turn(d)
	if why != nil {
		return nil, why
	}
	if d.suspect {
		if why := q.countAlone(d); why != nil {
			release()
			if errors.Is(why, errCrashed) || IsUnavailable(why) {
				return why, nil
			}
			return nil, why
		}
	}
	err = q.call(d)
	release()
	q.mu.Lock()
	q.uncount(d)
	d.called, d.suspect = true, false // this process has survived it
	q.mu.Unlock()
	if why := context.Cause(d.s.calls); why != nil && (isLost(why) || err != nil) {
		return nil, why
	}
	return err, nil
}

// errPanic is what a handler's panic becomes.
var errPanic = errors.New("panic")

// call runs the handler with its deadline.
func (q *queue) call(d *delivery) (err error) {
	ctx, cancel := context.WithTimeout(d.s.calls, q.cfg.Deadline)
	defer cancel()
	begin := time.Now()
	q.stats.inFlight.Add(1)
	defer func() {
		if v := recover(); v != nil {
			q.log.Error("the handler panicked", "panic", fmt.Sprint(v), "message", d.m.ID,
				"stack", string(debug.Stack()))
			err = fmt.Errorf("%w: %v", errPanic, v)
		}
		d.elapsed = time.Since(begin)
		q.stats.inFlight.Add(-1)
		q.answered(d, word(ctx, err))
	}()
	return q.cfg.Handler(ctx, d.m)
}

// word is how an answer is counted.
func word(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, errPanic):
		return "panic"
	}
	switch kindOf(err) {
	case answerPermanent:
		return "permanent"
	case answerUnavailable:
		return "unavailable"
	case answerBusy:
		return "busy"
	case answerSkipped:
		return "skipped"
	case answerFailed:
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "deadline"
	}
	return "failed"
}

func (q *queue) answered(d *delivery, word string) {
	q.stats.answer(word)
	q.c.cfg.observer.Answered(q.cfg.Name, word, d.elapsed)
}

// conclude does what the answer asks for, and says whether that was d's end. Else it is handled again.
func (q *queue) conclude(d *delivery, err error) (r Result, ended bool) {
	kind := kindOf(err)
	if err == nil || kind == answerSkipped {
		q.isThere(d, q.away)
		if err == nil {
			return d.ack(Handled), true
		}
		return d.ack(SkippedDone), true
	}
	switch kind {
	case answerUnavailable:
		q.isAway(d, q.away, err.Error())
		return q.again(d, 0)
	case answerBusy:
		d.busy++
		return q.again(d, jittered(backoff(d.busy, q.cfg.MaxBackoff)))
	default: // a failure of the message
	}
	q.isThere(d, q.away)
	if errors.Is(err, errCrashed) {
		return q.giveUp(d, err, causeCrashed), true
	}
	d.failed(err)
	switch last := d.m.Attempt >= d.m.MaxAttempts; {
	case kind == answerPermanent:
		return q.giveUp(d, err, causePermanent), true
	case last:
		return q.giveUp(d, err, causeExhausted), true
	case q.cfg.Ordered:
		step := q.cfg.Steps[min(d.m.Attempt, len(q.cfg.Steps))-1]
		d.m = d.m.next()
		return q.again(d, step)
	}
	return q.retryLater(d), true
}

// again waits before the next call for the same delivery. Nothing of the last call is open meanwhile.
func (q *queue) again(d *delivery, wait time.Duration) (r Result, ended bool) {
	d.s.waiter.Store(true)
	q.poke()
	if why := q.sleep(d, wait); why != nil {
		return d.drop(why), true
	}
	return 0, false
}

// isAway shuts a gate, or counts one more try in vain.
func (q *queue) isAway(d *delivery, g *gate, reason string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	was := g.shut
	g.fail(d, time.Now(), reason)
	if !was {
		q.log.Warn("paused: something is away", "what", g.what, "reason", reason)
	}
	q.derive()
	q.tell()
}

// isThere opens a gate, if d was the one to try.
func (q *queue) isThere(d *delivery, g *gate) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !g.shut && g.tries == 0 {
		return
	}
	if g.succeed(d) {
		q.log.Info("going on: it is there again", "what", g.what, "after", time.Since(g.since))
		q.derive()
		q.tell()
	}
}

// poke lets the queue's loop look again.
func (q *queue) poke() {
	q.mu.Lock()
	q.tell()
	q.mu.Unlock()
}
