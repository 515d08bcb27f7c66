package consumer

import "time"

const (
	firstBackoff = time.Second
	// shedAfter is the number of failed tries after which what waits goes back to the queue, but for the one that
	// tries.
	shedAfter = 2
)

// gate is shut while what messages need is away: one of them tries again with backoff, the others wait. It is guarded
// by its queue's mu.
type gate struct {
	what   string    // for people
	target [2]string // exchange and routing key of a copy's gate
	limit  time.Duration
	shut   bool
	since  time.Time
	reason string
	tries  int
	next   time.Time
	tester *delivery // it alone tries; kept until its end
}

// pass says whether d may try now: the gate is open, or it is d's turn; at is when to ask again, if not sooner.
func (g *gate) pass(d *delivery, now time.Time) (ok bool, at time.Time) {
	if !g.shut {
		return true, time.Time{}
	}
	if g.tester == nil {
		g.tester = d
	}
	if g.tester != d {
		return false, time.Time{}
	}
	return !now.Before(g.next), g.next
}

// fail notes that a try of d failed.
func (g *gate) fail(d *delivery, now time.Time, reason string) {
	g.reason = reason
	switch {
	case !g.shut:
		g.shut, g.since, g.tester, g.tries = true, now, d, g.tries+1
	case g.tester == d:
		g.tries++
	default:
		return // it was on its way when the gate was shut
	}
	g.next = now.Add(jittered(backoff(g.tries, g.limit)))
}

// succeed opens the gate, if d was the one to try.
func (g *gate) succeed(d *delivery) (opened bool) {
	if g.shut && g.tester != d {
		return false
	}
	opened = g.shut
	g.shut, g.tester, g.tries = false, nil, 0
	return opened
}

// leave lets another one try.
func (g *gate) leave(d *delivery) (left bool) {
	if g.tester != d {
		return false
	}
	g.tester = nil
	return true
}

// backoff is the wait after so many failed tries: 1 s, 2 s, 4 s ... up to limit.
func backoff(tries int, limit time.Duration) time.Duration {
	return min(firstBackoff<<min(max(tries-1, 0), 16), limit)
}
