package confirms

import "time"

// Held calls f for each send that is out, without an outcome, on a connection that the broker
// blocks (an alarm): no confirm can come, and the time of the send's row goes on. f must not
// call the Sender.
func (s *Sender) Held(f func(Handler)) {
	s.mu.Lock()
	var blocked []*session
	for _, se := range [...]*session{s.state.session, s.state.isolated} {
		if se != nil && se.live && se.blocked {
			blocked = append(blocked, se)
		}
	}
	s.mu.Unlock()
	for _, se := range blocked {
		for _, l := range se.openLanes() {
			l.mu.Lock()
			for _, p := range l.win.fifo {
				if !p.timedOut {
					f(p.Handler)
				}
			}
			l.mu.Unlock()
		}
	}
}

// openLanes returns the lanes that are open, retired ones included.
func (se *session) openLanes() []*lane {
	se.mu.Lock()
	defer se.mu.Unlock()
	all := make([]*lane, 0, len(se.tracked))
	for l := range se.tracked {
		all = append(all, l)
	}
	return all
}

// trackLane runs the lane's tracker.
func (se *session) trackLane(l *lane) {
	se.mu.Lock()
	se.tracked[l] = struct{}{}
	se.mu.Unlock()
	l.track()
	se.mu.Lock()
	defer se.mu.Unlock()
	delete(se.tracked, l)
}

// After an alarm one send goes first, alone on each channel: the broker may be about to block
// the connection again, and then what was sent at once lies in the socket until the next end.
// It passes when something is answered, or when nothing is for a while although the broker
// does not block: its queue may be one that never confirms.

// blockedChanged begins the wait for the canary.
func (se *session) blockedChanged(blocked bool) {
	se.canarySince.Store(int64(se.clock.now()))
	if blocked {
		se.canary.Store(true)
	}
}

// canaryPassed ends the wait after an answer.
func (l *lane) canaryPassed() {
	if l.se.canary.Load() && !l.se.wire.Patient() {
		l.se.canary.Store(false)
	}
}

// canaryOver ends the wait without one.
func (l *lane) canaryOver(head *pending) {
	if !l.se.canary.Load() || l.se.wire.Patient() {
		return
	}
	since := max(head.sentAt, time.Duration(l.se.canarySince.Load()))
	if l.se.clock.now()-since > l.shares.patience {
		l.se.canary.Store(false)
		signal(l.freed)
	}
}
