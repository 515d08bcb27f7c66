package main

import (
	"cmp"
	"fmt"
	"slices"
)

// The causes of repeats that the product's promise allows.
const (
	causeCrash    = "crash"           // the process died between send and delete
	causeDatabase = "database"        // the delete met a fault of the database
	causeUnknown  = "unknown-outcome" // the broker may have had it
	causeNack     = "nack"            // one queue of a fan-out refused, another had accepted
	causeBlocked  = "blocked"         // an alarm lasted longer than a lease
	causeRestored = "stored-again"    // an answer was written late, over a fault of the database
	causePause    = "pause"           // a process was stopped past a lease
	causeAgain    = "published-again" // the caller published the id again, not knowing
)

// explain finds a cause for each repeat of a message in one queue.
func (e *evidence) explain(a *account, at place, m *intended, got *arrivals) {
	sends := e.effective(at.id)
	// A nacked send has most likely not arrived: it counts only where the others do not
	// account for what did.
	if others := slices.DeleteFunc(slices.Clone(sends), func(s *send) bool {
		return s.kind == "nacked" && !e.nackedAndKept(m, s)
	}); len(got.plain) <= len(others) {
		sends = others
	}
	extra := len(got.plain) - len(sends)
	if extra > 0 {
		// Delivered more often than sent: the broker delivered again to a consumer that came
		// back, having forgotten that it had done so.
		if e.counter.reconnectedBetween(got.plain[0], got.plain[len(got.plain)-1]) {
			a.redelivered += extra
		} else {
			a.repeats += extra
			a.unexplained = append(a.unexplained,
				fmt.Sprintf("%s in %s: delivered more often than sent: %s", at.id, at.queue, e.story(at.id)))
		}
	}
	repeats := min(len(got.plain), len(sends)) - 1
	a.repeats += max(repeats, 0)
	for i := 1; i < len(sends); i++ {
		cause := e.cause(m, sends[i-1], sends[i])
		if cause == "" {
			a.unexplained = append(a.unexplained, fmt.Sprintf("%s in %s: %s", at.id, at.queue, e.story(at.id)))
			continue
		}
		if i <= repeats {
			a.causes[cause]++
		}
	}
}

// effective are the sends of a message that the broker may have accepted, in order.
func (e *evidence) effective(id string) []*send {
	var out []*send
	for _, s := range e.book.sends[id] {
		switch s.kind {
		case "deferred", "returned", "refused":
		default:
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *send) int { return cmp.Compare(a.at, b.at) })
	return out
}

// cause says why a message could be sent again after a send, or "".
func (e *evidence) cause(m *intended, first, next *send) string {
	killed := e.members[first.proc].killed
	switch {
	case first.done == 0 && killed > 0:
		return causeCrash
	case first.done == 0 && e.members[first.proc].ended, first.kind == "unknown":
		return causeUnknown
	case first.kind == "nacked" && e.nackedAndKept(m, first):
		return causeNack
	case first.kind == "acked" && killed > first.done && killed < next.at:
		return causeCrash
	case first.kind == "acked" && e.databaseFault(first.done, next.at):
		return causeDatabase
	case first.kind == "acked" && e.blockedPastLease(first, next):
		return causeBlocked
	case first.kind == "acked" && e.storedAgain(first, next):
		return causeRestored
	case e.pausedBetween(first.proc, first.at, next.at), e.pausedBetween(next.proc, first.at, next.at):
		return causePause
	case m.publishedAgain(first.at, next.at):
		return causeAgain
	}
	return ""
}

// publishedAgain says whether a call after the first may have stored the message between
// two times.
func (m *intended) publishedAgain(from, to int64) bool {
	return slices.ContainsFunc(m.calls[1:], func(c *call) bool { return c.at <= to && (c.done == 0 || c.done >= from) })
}

func (e *evidence) databaseFault(from, to int64) bool {
	return slices.ContainsFunc(e.faults, func(d done) bool { return d.Database && d.From <= to && d.To >= from })
}

// nackedAndKept says whether a queue may have what a send was nacked for: another queue of
// a fan-out; or any, while the proxy swallows acks: a nack of many covers what those were for.
func (e *evidence) nackedAndKept(m *intended, s *send) bool {
	return len(routes()[m.route].queues) > 1 || e.during("acks-swallowed", s.at, s.done)
}

// blockedPastLease says whether an alarm held the broker's answer back for so long that the
// lease had ended when another process sent.
func (e *evidence) blockedPastLease(first, next *send) bool {
	return next.at-first.at >= int64(claimLease) && e.during("memory-alarm", first.at, first.done)
}

// storedAgain says whether a process stored the row again after the ack: an earlier send of
// its own had come back, and a fault of the database kept it from writing that in time.
func (e *evidence) storedAgain(first, next *send) bool {
	return slices.ContainsFunc(e.book.again[first.id], func(r event) bool {
		return r.at >= first.done && r.at <= next.at && slices.ContainsFunc(e.book.sends[first.id], func(s *send) bool {
			came := s.kind == "returned" || s.kind == "nacked" || s.kind == "refused"
			return came && s.proc == r.proc && s.done < r.at && e.databaseFault(s.done, r.at)
		})
	})
}

// during says whether a fault of a kind fell into that time.
func (e *evidence) during(kind string, from, to int64) bool {
	return slices.ContainsFunc(e.faults, func(d done) bool { return d.Kind == kind && d.From <= to && d.To >= from })
}

// leaseWorth is how long a pause must be to be the cause of anything.
const leaseWorth = int64(1e9)

func (e *evidence) pausedBetween(proc string, from, to int64) bool {
	return slices.ContainsFunc(e.members[proc].pauses, func(p pause) bool {
		return p.to-p.from >= leaseWorth && p.from <= to && p.to >= from
	})
}
