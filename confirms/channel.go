package confirms

import (
	"errors"
	"math"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/model"
)

// role is what a connection and its channels are for: publishing side by side, or one suspect
// at a time. It outlives connections, and so do the sends in its queue.
type role struct {
	name     string
	queue    chan *pending // capacity MaxPending: whoever reserved has room
	gate     *flag         // off: what is queued is deferred, and nothing is sent
	channels int           // of one connection
	window   int
	alone    bool // an exception on the channel or connection is the fault of the one send on it
}

// channel is one channel in confirm mode. Its sender goroutine (run) alone publishes on it;
// its tracker goroutine (track.go) alone reads what the broker says of it.
type channel struct {
	se      *session
	role    *role
	ch      *amqp.Channel
	returns chan amqp.Return // capacity = window: never full, see window
	closes  chan *amqp.Error // capacity 1

	mu      sync.Mutex
	win     window
	shares  shares
	idle    bool // the tracker waits for work
	overdue int  // timed-out sends

	crowded []*share // with parked sends; run's own

	work    chan struct{} // cap 1: sent while idle
	freed   chan struct{} // cap 1: a slot was freed
	dead    chan struct{} // closed by the tracker: the channel is closed
	retired chan struct{} // closed by the tracker: a confirm is overdue, send no more
	ended   chan struct{} // closed when the sender goroutine is through

	// The tracker's own:
	returned  map[string]amqp.Return // read and not yet matched
	undecided []*pending             // resolved by a close, not by the broker
	isRetired bool
	stalled   bool          // it answers nothing of several routes
	behind    *share        // the route whose overdue send nothing newer has overtaken
	behindAt  time.Duration // when that was sent
}

// openChannel opens a channel; confirm mode is part of opening it.
func (se *session) openChannel() (*channel, error) {
	r := se.role
	c := &channel{
		se: se, role: r,
		returns: make(chan amqp.Return, r.window),
		closes:  make(chan *amqp.Error, 1),
		win:     newWindow(r.window, se.s.cfg.WindowBytes),
		shares:  newShares(r.window, se.s.cfg.ConfirmTimeout),
		work:    make(chan struct{}, 1), freed: make(chan struct{}, 1),
		dead: make(chan struct{}), retired: make(chan struct{}), ended: make(chan struct{}),
		returned: make(map[string]amqp.Return),
	}
	defer se.guard("open channel")()
	ch, err := se.conn.Channel()
	if err != nil {
		return nil, err
	}
	ch.NotifyReturn(c.returns)
	ch.NotifyClose(c.closes)
	if err := ch.Confirm(false); err != nil {
		return nil, err
	}
	c.ch = ch
	return c, nil
}

// run sends from the role's queue until the channel is dead or retired or the session is
// over.
func (c *channel) run() {
	defer close(c.ended)
	defer c.requeueParked()
	for {
		c.unpark()
		// A channel without a slot leaves the queue to the others.
		queue := c.role.queue
		if !c.hasSlot() {
			queue = nil
		}
		select {
		case <-c.dead:
			return
		case <-c.retired:
			return
		case <-c.se.over:
			return
		case <-c.freed:
		case <-c.gateOff():
		case p := <-queue:
			c.send(p)
		}
	}
}

func (c *channel) hasSlot() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.win.slots() < c.limit()
}

// send publishes p, or gives it its outcome, or hands it on.
func (c *channel) send(p *pending) {
	if !c.sendable(p) || !c.admit(p) {
		return
	}
	// The last look before the library call: nothing is sent through a closed gate or
	// after the time in which the row is ours.
	if now := time.Now(); !c.role.gate.get() || p.late(now) {
		c.free(p)
		p.deferred(c.se.s.whyNotSent(c.role))
		return
	}
	m := p.Message
	p.sentAt = c.se.clock.now()
	dc, err := c.ch.PublishWithDeferredConfirm(m.Exchange, m.RoutingKey, !m.AllowUnroutable, false, publishing(m))
	if err != nil {
		c.free(p)
		c.publishFailed(p, err)
		return
	}
	c.mu.Lock()
	p.dc = dc
	c.win.sent(p)
	wake := c.idle
	c.idle = false
	c.mu.Unlock()
	if wake {
		signal(c.work)
	}
}

// sendable checks what would close the channel or connection under the neighbours.
func (c *channel) sendable(p *pending) bool {
	limits := model.Limits{MaxBody: math.MaxInt, FrameMax: c.se.frameMax}
	check := model.Check
	if p.Received {
		check = model.CheckReceived
	}
	if err := check(p.Message, limits); err != nil {
		p.finish(model.Outcome{
			Kind: model.Refused, Code: model.CodeInvalid, Text: model.CleanText(err.Error()), Permanent: true,
		})
		return false
	}
	if why, waits := c.se.s.admit(p); waits {
		p.finish(why)
		return false
	} else if p.role != c.role { // it has become a probe
		c.se.s.requeue(p)
		return false
	}
	if n := c.se.s.largest.Load(); n > 0 && p.size() > n && !c.role.alone {
		// The broker will close its channel. It is still the broker that decides, and
		// alone no neighbour loses its confirm by it.
		p.role = c.se.s.quarantine
		c.se.s.requeue(p)
		return false
	}
	switch state, text := c.se.exchanges.ask(p); state {
	case exchangeKnown:
		return true
	case exchangeMissing:
		p.finish(model.Outcome{Kind: model.Refused, Code: model.CodeNotFound, Text: text})
	case exchangeGateClosed:
		p.deferred(c.se.s.whyNotSent(c.role))
	case exchangeAsked: // parked: it comes back through the queue
	}
	return false
}

// admit waits for a slot of the window and for room on the wire.
func (c *channel) admit(p *pending) bool {
	for {
		slow := c.se.wire.Full()
		if slow == nil {
			a, s := c.tryAdmit(p)
			switch a {
			case admitted:
				c.se.inFlight.Add(1)
				return true
			case duplicate:
				o := notSent("the same id is in flight on this channel")
				o.Wait = c.se.s.cfg.ProbeDelay
				p.finish(o)
				return false
			case crowded:
				c.park(p, s)
				return false
			case silent:
				c.silence(p)
				return false
			case full:
			}
		}
		select {
		case <-slow:
		case <-c.freed:
		case <-c.role.gate.whenOff():
			p.deferred(c.se.s.whyNotSent(c.role))
			return false
		case <-c.dead:
			c.se.s.requeue(p)
			return false
		case <-c.retired:
			c.se.s.requeue(p)
			return false
		}
	}
}

// tryAdmit takes a slot of the window and of the route's share. A probe needs none of the
// share, and nothing goes before what is parked.
func (c *channel) tryAdmit(p *pending) (admission, *share) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.shares.of(routeOf(p))
	if len(s.parked) > 0 && !p.unparked {
		return crowded, s
	}
	if p.probe == nil {
		if a := c.shares.admit(s); a != admitted {
			return a, s
		}
	}
	a := c.win.admit(p.Message.ID, p.size(), c.limit())
	if a == admitted {
		p.share = s
		c.shares.take(s, c.se.clock.now)
	}
	return a, s
}

// limit is the window in force: one while a canary is out, half of it while a channel answers
// nothing.
func (c *channel) limit() int {
	if c.se.canary.Load() {
		return 1
	}
	if c.se.stalled.Load() > 0 {
		return max(1, c.win.max/2)
	}
	return c.win.max
}

func (c *channel) free(p *pending) {
	c.mu.Lock()
	c.win.free(p.Message.ID, p.size())
	c.shares.free(p)
	c.mu.Unlock()
	c.se.inFlight.Add(-1)
}

// publishFailed handles an error of the library call. All of them are certain not to have
// sent the message. Either a header cannot be encoded, which is refused before anything
// else, or the channel or the wire is dead: the wire takes a write whole or not at all
// (see wire.Write) and the library reports the last one of the message, so what may be out
// is at most a part of it, and an incomplete message is none. Messages that were taken by
// the wire and not written are the tracker's: they end as unknown.
func (c *channel) publishFailed(p *pending, err error) {
	if invalid := table(p.Message.Headers).Validate(); invalid != nil {
		p.finish(model.Outcome{
			Kind: model.Refused, Code: model.CodeInvalid, Permanent: true,
			Text: model.CleanText("headers " + invalid.Error()),
		})
		return
	}
	if !errors.Is(err, amqp.ErrClosed) {
		c.se.kill("write: " + err.Error())
	}
	c.se.s.requeue(p) // the next channel sends it, or the gate closes and it is deferred
	// Nothing more can be sent here; do not take the next one to find out again.
	select {
	case <-c.dead:
	case <-c.se.over:
	}
}

// signal wakes the one reader of a channel with capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
