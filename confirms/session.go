package confirms

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/broker"
	"github.com/transmsg/transmsg/model"
)

// reopenDelay is the wait after a channel could not be opened on a living connection.
const reopenDelay = time.Second

// session is one connection of one role and all that lives on it. Nothing of it outlives run: a new
// connection is a new session with new channels, so no delivery tag, return or cached
// answer of the old one can be taken for the new one's.
type session struct {
	s          *Sender
	role       *role
	generation uint64
	addr       string
	conn       *amqp.Connection
	wire       *broker.Wire
	frameMax   int
	clock      *confirmClock
	exchanges  *exchanges
	login      broker.Login // keepLogin's alone

	loginRefused chan struct{}   // cap 1: the broker refuses the login
	life         context.Context //nolint:containedctx // ends with the connection, for what asks for credentials
	endLife      context.CancelFunc

	inFlight atomic.Int64 // slots taken, all channels
	timedOut atomic.Int64 // timed-out sends still tracked, all channels
	stalled  atomic.Int64 // channels that answer nothing
	// canary: an alarm is over, or not, and nothing was answered since; see alarm.go.
	canary      atomic.Bool
	canarySince atomic.Int64 // on the clock

	over   chan struct{} // closed when the connection is lost or given up
	unused chan struct{} // closed by the watchdog: the quarantine has been idle

	// Guarded by the sender's mu: the gates follow from them.
	channels int  // open
	live     bool // a channel was open, and the connection is not over
	blocked  bool
	// loginBad: the broker refuses the login, and nothing is sent until it is renewed.
	loginBad bool
	retired  int // channels with overdue confirms

	mu      sync.Mutex
	reason  string              // why it was ended, if by us
	calls   map[int]guardedCall // calls to the broker that wait for an answer
	callSeq int
	tracked map[*channel]struct{} // with a running tracker

	wg sync.WaitGroup
}

type guardedCall struct {
	what  string
	since time.Duration
}

func newSession(s *Sender, r *role, generation uint64, d broker.Dialled) *session {
	life, end := context.WithCancel(context.Background())
	return &session{
		login: d.Login, loginRefused: make(chan struct{}, 1), life: life, endLife: end,
		s: s, role: r, generation: generation, addr: d.Addr, conn: d.Conn, wire: d.Wire, frameMax: d.FrameMax,
		clock: newConfirmClock(), exchanges: newExchanges(r.gate),
		over: make(chan struct{}), unused: make(chan struct{}), calls: make(map[int]guardedCall),
		tracked: make(map[*channel]struct{}),
	}
}

// run serves the connection until it is lost or stop closes, and returns why it was lost.
// All its sends have their outcome and all its goroutines have ended when it returns.
func (se *session) run(stop <-chan struct{}) error {
	closed := se.conn.NotifyClose(make(chan *amqp.Error, 1))
	// The library's reader waits for room here: it must never be full for long.
	blocked := se.conn.NotifyBlocked(make(chan amqp.Blocking, 16))

	se.wg.Go(func() { se.watchBlocked(blocked) })
	se.wg.Go(se.watchdog)
	se.wg.Go(se.askExchanges)
	se.wg.Go(se.keepLogin)
	for range se.role.channels {
		se.wg.Go(se.keepChannel)
	}

	var lost *amqp.Error
	select {
	case lost = <-closed:
	case <-stop:
		se.setReason("the sender was closed")
	case <-se.unused:
		se.setReason("no suspects to send")
	}
	se.s.sessionOver(se)
	close(se.over)
	se.endLife()
	if lost == nil {
		d := broker.Dialled{Conn: se.conn, Wire: se.wire}
		d.CloseGracefully(se.s.closeGrace())
	} else {
		se.wire.Goodbye()
	}
	se.wire.Kill()
	se.wg.Wait()
	<-se.wire.Flushed
	return fmt.Errorf("connection lost: %s", se.endText(lost))
}

// keepChannel keeps one channel open until the session is over.
func (se *session) keepChannel() {
	for {
		c, err := se.openChannel()
		if err != nil {
			if se.waitReopen(err) {
				continue
			}
			return
		}
		se.wg.Go(func() { se.trackChannel(c) })
		se.s.channelUp(se)
		c.run()
		se.s.channelDown(se)
		if se.isOver() {
			return
		}
	}
}

// waitReopen waits before the next try to open a channel. A connection can live on for
// long without one: what is queued must not wait for it.
func (se *session) waitReopen(err error) bool {
	if !se.isOver() && !se.conn.IsClosed() {
		se.s.log.Warn("open channel", "error", err, "role", se.role.name, "generation", se.generation)
		if se.s.channels(se) == 0 {
			se.s.deferAll(se.role, "no channel could be opened: "+err.Error())
		}
	}
	timer := time.NewTimer(reopenDelay)
	defer timer.Stop()
	select {
	case <-se.over:
		return false
	case <-timer.C:
		return true
	}
}

// watchBlocked closes the gate at once when the broker blocks the connection, and stops
// the timers: the confirms come when the alarm is over. It ends with the connection.
func (se *session) watchBlocked(blocked <-chan amqp.Blocking) {
	for b := range blocked {
		se.clock.pause(b.Active)
		se.wire.SetPatient(b.Active)
		se.blockedChanged(b.Active)
		se.s.setBlocked(se, b.Active, b.Reason)
	}
}

// kill ends the connection from our side, for a reason.
func (se *session) kill(reason string) {
	se.setReason(reason)
	se.wire.Kill()
}

// setReason keeps the first reason.
func (se *session) setReason(reason string) {
	se.mu.Lock()
	defer se.mu.Unlock()
	if se.reason == "" {
		se.reason = reason
	}
}

// endText says why the connection ended: our own reason and a broken write come before
// the read error that follows from them.
func (se *session) endText(cause *amqp.Error) string {
	se.mu.Lock()
	defer se.mu.Unlock()
	broken := se.wire.Failure()
	switch {
	case se.reason != "":
		return se.reason
	case broken != nil && (cause == nil || !cause.Server):
		return model.CleanText(broken.Error())
	case cause == nil:
		return "the channel was closed"
	case cause.Server:
		return closeText(cause)
	default:
		return model.CleanText(cause.Reason)
	}
}

func (se *session) isOver() bool {
	select {
	case <-se.over:
		return true
	default:
		return false
	}
}

func (se *session) addTimedOut(n int) {
	se.timedOut.Add(int64(n))
	se.s.timedOutChanged(se)
}

// channelRetired counts the channels with overdue confirms. Too many of them: the connection is
// of no use.
func (se *session) channelRetired() {
	n := se.s.retire(se, 1)
	se.s.log.Warn("confirms overdue, channel retired", "role", se.role.name, "generation", se.generation,
		"timeout", se.s.cfg.ConfirmTimeout, "retired", n)
	if n > maxRetired {
		se.kill(fmt.Sprintf("confirms overdue on %d channels", n))
	}
}

func (se *session) channelException(cause *amqp.Error, unresolved int) {
	se.s.log.Warn("channel closed by the broker", "role", se.role.name, "generation", se.generation,
		"code", cause.Code, "text", cause.Reason, "unresolved", unresolved)
	se.s.cfg.observer.ChannelClosed(cause.Code, cause.Reason)
}
