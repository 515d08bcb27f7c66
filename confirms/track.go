package confirms

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/broker"
	"github.com/transmsg/transmsg/model"
)

// trackTick is how often a tracker with unconfirmed sends looks for overdue confirms,
// and past a stuck oldest send for the others.
const trackTick = 10 * time.Millisecond

// maxRetired is how many channels with overdue confirms one role may have: beyond it the
// connection is given up.
const maxRetired = 2

// track resolves the channel's sends until the channel is dead. It waits for the oldest
// confirmation; the ones behind it are usually resolved with it or next.
func (c *channel) track() {
	ticker := time.NewTicker(trackTick)
	defer ticker.Stop()
	var retiredAt time.Duration
	var last *pending // the oldest at the last tick
	for {
		head := c.oldest()
		if head == nil {
			if retiredAt > 0 && c.senderEnded() {
				c.discard()
				return
			}
			ticker.Stop()
			select {
			case <-c.work:
			case <-c.retiredAndEnded(retiredAt):
			case cause := <-c.closes:
				c.conclude(cause)
				return
			}
			ticker.Reset(trackTick)
			continue
		}
		select {
		case <-head.dc.Done():
			c.resolve(c.take(false))
		case cause := <-c.closes:
			c.conclude(cause)
			return
		case <-ticker.C:
			if head == last {
				c.resolve(c.take(true))
			}
			last = head
			c.canaryOver(head)
			c.expire()
			if retiredAt == 0 && c.spent() {
				retiredAt = c.se.clock.now()
				c.retire()
			}
			if retiredAt > 0 && c.se.clock.now()-retiredAt > c.se.s.cfg.ConfirmTimeout && c.allTimedOut() {
				c.discard()
				return
			}
		}
		if len(c.undecided) > 0 {
			// Resolved by a close: the notice of it is on its way.
			c.conclude(<-c.closes)
			return
		}
	}
}

// oldest returns the oldest unconfirmed send, or nil after noting that the tracker waits.
func (c *channel) oldest() *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.win.fifo) == 0 {
		c.idle = true
		return nil
	}
	return c.win.fifo[0]
}

func (c *channel) senderEnded() bool {
	select {
	case <-c.ended:
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.win.fifo) == 0
	default:
		return false
	}
}

// retiredAndEnded is when an empty retired channel can be closed: not before its sender has
// stopped, which may just be sending one more.
func (c *channel) retiredAndEnded(retiredAt time.Duration) <-chan struct{} {
	if retiredAt == 0 {
		return nil
	}
	return c.ended
}

// take removes resolved sends: the oldest in a row, or also those behind unresolved ones.
func (c *channel) take(all bool) []*pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	if all {
		return c.win.takeAny(resolved, nil)
	}
	return c.win.takePrefix(resolved, nil)
}

func resolved(p *pending) bool {
	select {
	case <-p.dc.Done():
		return true
	default:
		return false
	}
}

// resolve decides sends whose confirmation is resolved. The order matters: the library's
// reader puts a return into the channel before it resolves the confirmation that came
// after it, so once a confirmation is seen resolved its return, if any, is in the buffer.
// The slots are freed after that and before the outcomes are told, so that a slow handler
// holds up its own channel's tracker alone.
func (c *channel) resolve(batch []*pending) {
	if len(batch) == 0 {
		return
	}
	c.drainReturns()
	type decision struct {
		p *pending
		o model.Outcome
	}
	decisions := make([]decision, 0, len(batch))
	for _, p := range batch {
		ret, ok := c.returned[p.Message.ID]
		o, decided := outcomeOf(p.dc.Acked(), ret, ok, !c.ch.IsClosed())
		if !decided {
			c.undecided = append(c.undecided, p)
			continue
		}
		if ok {
			delete(c.returned, p.Message.ID)
		}
		decisions = append(decisions, decision{p, o})
	}
	c.mu.Lock()
	for _, d := range decisions {
		c.win.free(d.p.Message.ID, d.p.size())
		c.shares.free(d.p)
		c.shares.answered(d.p)
		if d.p.timedOut {
			c.overdue--
		}
	}
	c.mu.Unlock()
	c.canaryPassed()
	signal(c.freed)
	if c.stalled && c.none() {
		c.setStalled(false)
	}
	for _, d := range decisions {
		c.report(d.p, d.o)
	}
}

// report tells an outcome: the first of a send, or a late one of a timed-out send.
func (c *channel) report(p *pending, o model.Outcome) {
	c.se.inFlight.Add(-1)
	c.observe(p, o.Kind)
	if !p.timedOut {
		p.finish(o)
		return
	}
	c.se.addTimedOut(-1)
	if answered(o.Kind) {
		c.se.s.broken.LateAnswer(p.Message.Exchange, p.Message.RoutingKey)
	}
	if o.Kind == model.Acked {
		c.se.s.counts.lateAcks.Add(1)
		p.Handler.LateAck()
	}
}

// observe reports how long the broker took, if it is the broker that answered.
func (c *channel) observe(p *pending, kind model.OutcomeKind) {
	if answered(kind) {
		c.se.s.cfg.observer.Answered(kind, c.se.clock.now()-p.sentAt)
	}
}

// drainReturns reads the returns that are there, without waiting.
func (c *channel) drainReturns() {
	for {
		select {
		case r, ok := <-c.returns:
			if !ok {
				c.returns = nil // closed; a nil channel is never ready
				return
			}
			c.noteReturn(r)
		default:
			return
		}
	}
}

func (c *channel) noteReturn(r amqp.Return) {
	r.Body, r.Headers = nil, nil // echoed in full; not needed
	c.returned[r.MessageId] = r
}

// allTimedOut reports whether every unconfirmed send is overdue: the sender may have sent
// some more just before it saw the retirement.
func (c *channel) allTimedOut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.win.fifo)
	return n == 0 || c.win.fifo[n-1].timedOut
}

// retire stops sending on this channel. The acks that still come are late acks.
func (c *channel) retire() {
	close(c.retired)
	c.isRetired = true
	c.se.channelRetired()
}

// discard closes a retired channel: it is empty, or waited once more as long in vain.
func (c *channel) discard() {
	end := c.se.guard("close channel")
	// The error is that it is closed already.
	_ = c.ch.Close()
	end()
	c.conclude(<-c.closes)
}

// conclude gives every send that is left its outcome after the channel was closed. What
// the broker said before still counts: all returns are in the buffer, which is closed,
// and every confirmation is resolved.
func (c *channel) conclude(cause *amqp.Error) {
	close(c.dead)
	<-c.ended // nothing is added from here on
	if c.stalled {
		c.setStalled(false)
	}
	connOpen := !c.se.conn.IsClosed()
	if c.isRetired && connOpen {
		c.se.s.retire(c.se, -1) // else it stays: what ended the connection may have been on it
	}
	if c.returns != nil {
		for r := range c.returns {
			c.noteReturn(r)
		}
	}
	c.mu.Lock()
	left := append(c.undecided, c.win.fifo...)
	c.undecided, c.win.fifo = nil, nil
	c.mu.Unlock()
	unresolved := left[:0]
	for _, p := range left {
		<-p.dc.Done()
		ret, ok := c.returned[p.Message.ID]
		if o, decided := outcomeOf(p.dc.Acked(), ret, ok, false); decided {
			c.report(p, o)
		} else {
			unresolved = append(unresolved, p)
		}
	}
	c.judge(cause, connOpen, unresolved)
}

// judge decides what the end of the channel means for the sends without an answer.
func (c *channel) judge(cause *amqp.Error, connOpen bool, unresolved []*pending) {
	channel := isChannelException(cause, connOpen)
	if channel && broker.RefusesLogin(cause) {
		c.se.refuseLogin() // before any outcome is told
		c.se.channelException(cause, len(unresolved))
		for _, p := range unresolved {
			c.report(p, unknown(model.CodeClosed, closeText(cause)))
		}
		return
	}
	switch {
	case channel:
		c.se.channelException(cause, len(unresolved))
		if n := largest(cause); n > 0 {
			c.se.s.largest.Store(n) // before any outcome is told
		}
	case !isConnectionException(cause):
		code, text := model.CodeClosed, c.se.endText(cause)
		switch {
		case c.role.alone:
			code = model.CodeSuspect // as before: nothing was learned of it
		case c.se.wire.Failure() != nil:
			code = model.CodeWrite
		}
		for _, p := range unresolved {
			c.report(p, unknown(code, text))
		}
		return
	}
	// A suspect is alone on its channel, and on its connection unless an overdue one is
	// still out on another channel.
	if c.role.alone && (channel || c.se.s.retire(c.se, 0) == 0) {
		for _, p := range unresolved {
			c.se.exchanges.forget(p.Message.Exchange)
			c.report(p, pinned(cause, p.Message))
		}
		return
	}
	suspect := suspects(cause, unresolved)
	for i, p := range unresolved {
		code := model.CodeClosed
		if suspect[i] {
			code = model.CodeSuspect
			c.se.exchanges.forget(p.Message.Exchange)
		}
		c.report(p, closedWith(model.Unknown, code, cause, p.Message))
	}
}
