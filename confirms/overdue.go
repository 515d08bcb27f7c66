package confirms

import "github.com/transmsg/transmsg/model"

// holdFor is how many confirm timeouts after its sending an unanswered send makes its channel
// be replaced: until then its id is not sent again on that channel, which would be a copy.
const holdFor = 4

// expire tells the overdue sends that their outcome is unknown. They keep their slots. Their
// routes are to blame, as long as the channel answers what was sent later, or there is only
// one such route; else it is the channel.
func (l *lane) expire() {
	l.mu.Lock()
	expired := l.win.expire(l.se.clock.now() - l.se.s.cfg.ConfirmTimeout)
	stalled := l.stalled
	for _, p := range expired {
		l.overdue++
		l.shares.expired(p)
		switch {
		case p.sentAt < l.shares.newest: // overtaken
		case l.behind == nil || l.behindAt < l.shares.newest:
			l.behind, l.behindAt = p.share, p.sentAt
		case l.behind != p.share:
			stalled = true
		}
	}
	l.mu.Unlock()
	if len(expired) == 0 {
		return
	}
	if stalled && !l.stalled {
		l.setStalled(true)
	}
	l.se.addTimedOut(len(expired))
	l.se.s.counts.overdue.Add(uint64(len(expired)))
	for _, p := range expired {
		p.finish(unknown(model.CodeTimeout, "no confirm within "+l.se.s.cfg.ConfirmTimeout.String()))
	}
	signal(l.freed) // what is parked is to know that its route waits
}

// spent reports whether the channel is to be replaced: it answers nothing, or sends without
// an answer hold too much of it or hold it for too long. Where only routes are to blame it
// stays while others are waited for already.
func (l *lane) spent() bool {
	if l.stalled {
		return true
	}
	l.mu.Lock()
	n, most := l.overdue, max(1, l.win.max/4)
	old := n > 0 && l.se.clock.now()-l.win.fifo[0].sentAt > holdFor*l.se.s.cfg.ConfirmTimeout
	l.mu.Unlock()
	return (n >= most || old) && l.se.s.retire(l.se, 0) < maxRetired
}

// none reports whether no overdue send is left.
func (l *lane) none() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.overdue == 0
}

// setStalled closes or opens the sender to new work.
func (l *lane) setStalled(stalled bool) {
	l.stalled = stalled
	n := int64(-1)
	if stalled {
		n = 1
	}
	l.se.stalled.Add(n)
	l.se.s.timedOutChanged(l.se)
}

// answered reports whether an outcome of this kind is the broker's answer.
func answered(k model.Kind) bool {
	return k == model.Acked || k == model.Nacked || k == model.Returned
}
