package confirms

import "github.com/transmsg/transmsg/model"

// holdFor is how many confirm timeouts after its sending an unanswered send makes its channel
// be replaced: until then its id is not sent again on that channel, which would be a copy.
const holdFor = 4

// expire tells the overdue sends that their outcome is unknown. They keep their slots. Their
// routes are to blame, as long as the channel answers what was sent later, or there is only
// one such route; else it is the channel.
func (c *channel) expire() {
	c.mu.Lock()
	expired := c.win.expire(c.se.clock.now() - c.se.s.cfg.ConfirmTimeout)
	stalled := c.stalled
	for _, p := range expired {
		c.overdue++
		c.shares.expired(p)
		switch {
		case p.sentAt < c.shares.newest: // overtaken
		case c.behind == nil || c.behindAt < c.shares.newest:
			c.behind, c.behindAt = p.share, p.sentAt
		case c.behind != p.share:
			stalled = true
		}
	}
	c.mu.Unlock()
	if len(expired) == 0 {
		return
	}
	if stalled && !c.stalled {
		c.setStalled(true)
	}
	c.se.addTimedOut(len(expired))
	c.se.s.counts.overdue.Add(uint64(len(expired)))
	for _, p := range expired {
		p.finish(unknown(model.CodeTimeout, "no confirm within "+c.se.s.cfg.ConfirmTimeout.String()))
	}
	signal(c.freed) // what is parked is to know that its route waits
}

// spent reports whether the channel is to be replaced: it answers nothing, or sends without
// an answer hold too much of it or hold it for too long. Where only routes are to blame it
// stays while others are waited for already.
func (c *channel) spent() bool {
	if c.stalled {
		return true
	}
	c.mu.Lock()
	n, most := c.overdue, max(1, c.win.max/4)
	old := n > 0 && c.se.clock.now()-c.win.fifo[0].sentAt > holdFor*c.se.s.cfg.ConfirmTimeout
	c.mu.Unlock()
	return (n >= most || old) && c.se.s.retire(c.se, 0) < maxRetired
}

// none reports whether no overdue send is left.
func (c *channel) none() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.overdue == 0
}

// setStalled closes or opens the sender to new work.
func (c *channel) setStalled(stalled bool) {
	c.stalled = stalled
	n := int64(-1)
	if stalled {
		n = 1
	}
	c.se.stalled.Add(n)
	c.se.s.timedOutChanged(c.se)
}

// answered reports whether an outcome of this kind is the broker's answer.
func answered(k model.OutcomeKind) bool {
	return k == model.Acked || k == model.Nacked || k == model.Returned
}
