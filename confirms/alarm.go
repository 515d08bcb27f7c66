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
		for _, c := range se.openChannels() {
			c.mu.Lock()
			for _, p := range c.win.fifo {
				if !p.timedOut {
					f(p.Handler)
				}
			}
			c.mu.Unlock()
		}
	}
}

// openChannels returns the channels that are open, retired ones included.
func (se *session) openChannels() []*channel {
	se.mu.Lock()
	defer se.mu.Unlock()
	all := make([]*channel, 0, len(se.tracked))
	for c := range se.tracked {
		all = append(all, c)
	}
	return all
}

// trackChannel runs the channel's tracker.
func (se *session) trackChannel(c *channel) {
	se.mu.Lock()
	se.tracked[c] = struct{}{}
	se.mu.Unlock()
	c.track()
	se.mu.Lock()
	defer se.mu.Unlock()
	delete(se.tracked, c)
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
func (c *channel) canaryPassed() {
	if c.se.canary.Load() && !c.se.wire.Patient() {
		c.se.canary.Store(false)
	}
}

// canaryOver ends the wait without one.
func (c *channel) canaryOver(head *pending) {
	if !c.se.canary.Load() || c.se.wire.Patient() {
		return
	}
	since := max(head.sentAt, time.Duration(c.se.canarySince.Load()))
	if c.se.clock.now()-since > c.shares.patience {
		c.se.canary.Store(false)
		signal(c.freed)
	}
}
