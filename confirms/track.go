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

// track resolves the lane's sends until the channel is dead. It waits for the oldest
// confirmation; the ones behind it are usually resolved with it or next.
func (l *lane) track() {
	ticker := time.NewTicker(trackTick)
	defer ticker.Stop()
	var retiredAt time.Duration
	var last *pending // the oldest at the last tick
	for {
		head := l.oldest()
		if head == nil {
			if retiredAt > 0 && l.senderEnded() {
				l.discard()
				return
			}
			ticker.Stop()
			select {
			case <-l.work:
			case <-l.retiredAndEnded(retiredAt):
			case cause := <-l.closes:
				l.conclude(cause)
				return
			}
			ticker.Reset(trackTick)
			continue
		}
		select {
		case <-head.dc.Done():
			l.resolve(l.take(false))
		case cause := <-l.closes:
			l.conclude(cause)
			return
		case <-ticker.C:
			if head == last {
				l.resolve(l.take(true))
			}
			last = head
			l.canaryOver(head)
			l.expire()
			if retiredAt == 0 && l.spent() {
				retiredAt = l.se.clock.now()
				l.retire()
			}
			if retiredAt > 0 && l.se.clock.now()-retiredAt > l.se.s.cfg.ConfirmTimeout && l.allTimedOut() {
				l.discard()
				return
			}
		}
		if len(l.limbo) > 0 {
			// Resolved by a close: the notice of it is on its way.
			l.conclude(<-l.closes)
			return
		}
	}
}

// oldest returns the oldest unconfirmed send, or nil after noting that the tracker waits.
func (l *lane) oldest() *pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.win.fifo) == 0 {
		l.idle = true
		return nil
	}
	return l.win.fifo[0]
}

func (l *lane) senderEnded() bool {
	select {
	case <-l.ended:
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.win.fifo) == 0
	default:
		return false
	}
}

// retiredAndEnded is when an empty retired lane can be closed: not before its sender has
// stopped, which may just be sending one more.
func (l *lane) retiredAndEnded(retiredAt time.Duration) <-chan struct{} {
	if retiredAt == 0 {
		return nil
	}
	return l.ended
}

// take removes resolved sends: the oldest in a row, or also those behind unresolved ones.
func (l *lane) take(all bool) []*pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	if all {
		return l.win.takeAny(resolved, nil)
	}
	return l.win.takePrefix(resolved, nil)
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
// holds up its own lane's tracker alone.
func (l *lane) resolve(batch []*pending) {
	if len(batch) == 0 {
		return
	}
	l.drainReturns()
	type decision struct {
		p *pending
		o model.Outcome
	}
	decisions := make([]decision, 0, len(batch))
	for _, p := range batch {
		ret, ok := l.returned[p.Message.ID]
		o, decided := verdict(p.dc.Acked(), ret, ok, !l.ch.IsClosed())
		if !decided {
			l.limbo = append(l.limbo, p)
			continue
		}
		if ok {
			delete(l.returned, p.Message.ID)
		}
		decisions = append(decisions, decision{p, o})
	}
	l.mu.Lock()
	for _, d := range decisions {
		l.win.free(d.p.Message.ID, d.p.size())
		l.shares.free(d.p)
		l.shares.answered(d.p)
		if d.p.timedOut {
			l.overdue--
		}
	}
	l.mu.Unlock()
	l.canaryPassed()
	signal(l.freed)
	if l.stalled && l.none() {
		l.setStalled(false)
	}
	for _, d := range decisions {
		l.settle(d.p, d.o)
	}
}

// settle tells an outcome: the first of a send, or a late one of a timed-out send.
func (l *lane) settle(p *pending, o model.Outcome) {
	l.se.inFlight.Add(-1)
	l.observe(p, o.Kind)
	if !p.timedOut {
		p.finish(o)
		return
	}
	l.se.addTimedOut(-1)
	if answered(o.Kind) {
		l.se.s.broken.LateAnswer(p.Message.Exchange, p.Message.RoutingKey)
	}
	if o.Kind == model.Acked {
		l.se.s.counts.lateAcks.Add(1)
		p.Handler.LateAck()
	}
}

// observe reports how long the broker took, if it is the broker that answered.
func (l *lane) observe(p *pending, kind model.Kind) {
	f := l.se.s.cfg.Observer.Answered
	if f != nil && answered(kind) {
		f(kind, l.se.clock.now()-p.sentAt)
	}
}

// drainReturns reads the returns that are there, without waiting.
func (l *lane) drainReturns() {
	for {
		select {
		case r, ok := <-l.returns:
			if !ok {
				l.returns = nil // closed; a nil channel is never ready
				return
			}
			l.noteReturn(r)
		default:
			return
		}
	}
}

func (l *lane) noteReturn(r amqp.Return) {
	r.Body, r.Headers = nil, nil // echoed in full; not needed
	l.returned[r.MessageId] = r
}

// allTimedOut reports whether every unconfirmed send is overdue: the sender may have sent
// some more just before it saw the retirement.
func (l *lane) allTimedOut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.win.fifo)
	return n == 0 || l.win.fifo[n-1].timedOut
}

// retire stops sending on this channel. The acks that still come are late acks.
func (l *lane) retire() {
	close(l.retired)
	l.isRetired = true
	l.se.laneRetired()
}

// discard closes a retired channel: it is empty, or waited once more as long in vain.
func (l *lane) discard() {
	end := l.se.guard("close channel")
	// The error is that it is closed already.
	_ = l.ch.Close()
	end()
	l.conclude(<-l.closes)
}

// conclude gives every send that is left its outcome after the channel was closed. What
// the broker said before still counts: all returns are in the buffer, which is closed,
// and every confirmation is resolved.
func (l *lane) conclude(cause *amqp.Error) {
	close(l.dead)
	<-l.ended // nothing is added from here on
	if l.stalled {
		l.setStalled(false)
	}
	connOpen := !l.se.conn.IsClosed()
	if l.isRetired && connOpen {
		l.se.s.retire(l.se, -1) // else it stays: what ended the connection may have been on it
	}
	if l.returns != nil {
		for r := range l.returns {
			l.noteReturn(r)
		}
	}
	l.mu.Lock()
	left := append(l.limbo, l.win.fifo...)
	l.limbo, l.win.fifo = nil, nil
	l.mu.Unlock()
	unresolved := left[:0]
	for _, p := range left {
		<-p.dc.Done()
		ret, ok := l.returned[p.Message.ID]
		if o, decided := verdict(p.dc.Acked(), ret, ok, false); decided {
			l.settle(p, o)
		} else {
			unresolved = append(unresolved, p)
		}
	}
	l.judge(cause, connOpen, unresolved)
}

// judge decides what the end of the channel means for the sends without an answer.
func (l *lane) judge(cause *amqp.Error, connOpen bool, unresolved []*pending) {
	channel := isChannelException(cause, connOpen)
	if channel && broker.RefusesLogin(cause) {
		l.se.refuseLogin() // before any outcome is told
		l.se.channelException(cause, len(unresolved))
		for _, p := range unresolved {
			l.settle(p, unknown(model.CodeClosed, closeText(cause)))
		}
		return
	}
	switch {
	case channel:
		l.se.channelException(cause, len(unresolved))
		if n := largest(cause); n > 0 {
			l.se.s.largest.Store(n) // before any outcome is told
		}
	case !isConnectionException(cause):
		code, text := model.CodeClosed, l.se.endText(cause)
		switch {
		case l.role.alone:
			code = model.CodeSuspect // as before: nothing was learned of it
		case l.se.wire.Failure() != nil:
			code = model.CodeWrite
		}
		for _, p := range unresolved {
			l.settle(p, unknown(code, text))
		}
		return
	}
	// A suspect is alone on its channel, and on its connection unless an overdue one is
	// still out on another channel.
	if l.role.alone && (channel || l.se.s.retire(l.se, 0) == 0) {
		for _, p := range unresolved {
			l.se.exchanges.forget(p.Message.Exchange)
			l.settle(p, pinned(cause))
		}
		return
	}
	suspect := suspects(cause, unresolved)
	for i, p := range unresolved {
		code := model.CodeClosed
		if suspect[i] {
			code = model.CodeSuspect
			l.se.exchanges.forget(p.Message.Exchange)
		}
		l.settle(p, unknown(code, closeText(cause)))
	}
}
