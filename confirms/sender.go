package confirms

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/transmsg/transmsg/internal/breaker"
	"github.com/transmsg/transmsg/internal/broker"
	"github.com/transmsg/transmsg/model"
)

// Send is one try to send a message.
type Send struct {
	// Message must be normalized (see model.Normalize) and is not changed until Done,
	// and not until LateAck or the end of its connection after a timeout.
	Message *model.Message
	// Since is when the time given to the send began, and Within how long it is. It is
	// checked just before the library call: past it, or when wall and monotonic time
	// since then differ by more than a second, the outcome is Deferred. Within 0 means no
	// bound.
	Since  time.Time
	Within time.Duration
	// Alone sends through a connection of its own, one at a time: when the broker closes
	// that connection or its channel for what was sent, this message is the cause, and the
	// outcome is Refused. For messages whose last outcome was Unknown with the code suspect.
	Alone bool
	// Received says that the message is a copy of one that came from a broker: it is sent as it is, with any id or
	// none, and only refused where it would close the channel. One id is in flight once, which holds for none too.
	Received bool
	// Handler gets the outcome; never nil.
	Handler Handler
}

// Handler is told what became of a send. Its methods are called from an engine
// goroutine, one after the other for one send, and must not block: they hold up the
// confirms of a channel.
type Handler interface {
	// Done is called exactly once. Config.ConfirmTimeout bounds how long after the sending,
	// but not while the broker blocks the connection: no time is counted then, and a send
	// that is out may stay open for as long as the alarm.
	Done(model.Outcome)
	// LateAck is called at most once, after Done with Unknown and the code timeout: the
	// message was acked and not returned after all.
	LateAck()
}

// Sender is a supervised connection in confirm mode, and at times a second one for sends
// that go alone. Open one per process and role; it is safe for concurrent use. Close it.
type Sender struct {
	cfg        Config
	broker     broker.Settings
	log        *slog.Logger
	publish    *role
	quarantine *role
	reserved   reservations
	ready      *flag         // on: new work is taken on
	suspects   chan struct{} // cap 1: something was put into the quarantine's queue
	broken     *breaker.Breaker
	refusals   listeners

	sendMu  sync.RWMutex // held for reading by Send, so that Close knows the last one
	closing atomic.Bool
	gone    bool           // all goroutines but those of told have ended; written under sendMu
	told    sync.WaitGroup // see tell

	mu       sync.Mutex
	state    state
	loggedAt time.Time

	frameMax atomic.Int64
	largest  atomic.Int64 // body that this broker takes, learned from a refusal; 0: not known
	counts   counts
	pending  atomic.Int64  // sends without an outcome
	drained  chan struct{} // cap 1: pending became 0

	closeOnce sync.Once
	closeBy   time.Time     // until when a graceful end may take; guarded by stop
	refusing  chan struct{} // closed by Close first of all
	stop      chan struct{} // closed by Close: end the session
	ended     chan struct{} // closed when supervise and isolate have ended
	finished  chan struct{} // closed when all goroutines have ended
}

// Open validates the config and starts the supervisor. It never waits for the broker:
// see [Sender.WaitReady].
func Open(cfg Config) (*Sender, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Sender{
		cfg: cfg, broker: cfg.settings(), log: cfg.Logger.With("sender", cfg.Name),
		publish: &role{
			name: "publish", queue: make(chan *pending, cfg.MaxPending), gate: newFlag(),
			channels: cfg.Channels, window: cfg.Window,
		},
		quarantine: &role{
			name: "quarantine", queue: make(chan *pending, cfg.MaxPending), gate: newFlag(),
			channels: 1, window: 1, alone: true,
		},
		reserved: reservations{maxN: cfg.MaxPending, maxBytes: cfg.MaxPendingBytes},
		ready:    newFlag(), suspects: make(chan struct{}, 1),
		drained: make(chan struct{}, 1), refusing: make(chan struct{}), stop: make(chan struct{}),
		ended: make(chan struct{}), finished: make(chan struct{}),
	}
	s.broken = breaker.New(breaker.Config{
		Delay: cfg.ProbeDelay, Forget: cfg.ForgetRefusals, Changed: s.brokenChanged,
	})
	s.frameMax.Store(model.DefaultFrameMax)
	s.start()
	return s, nil
}

// start starts the goroutines; the last one to end closes finished.
func (s *Sender) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var connections, rest sync.WaitGroup
	connections.Go(func() { s.supervise(ctx) })
	connections.Go(func() { s.isolate(ctx) })
	rest.Go(func() { s.deferQueued(s.publish) })
	rest.Go(func() { s.deferQueued(s.quarantine) })
	rest.Go(s.forgetBroken)
	go func() {
		<-s.stop
		cancel()
		connections.Wait()
		close(s.ended)
		rest.Wait()
		s.waitTold()
		close(s.finished)
	}()
}

// Ready reports whether new work should be taken on: there is an open channel, the broker
// does not block the connection and confirms are not overdue on a whole channel.
func (s *Sender) Ready() bool { return s.ready.get() }

// WaitReady waits until Ready. The error is ctx's, with the last connection error if
// there is one, or model.ErrClosed.
func (s *Sender) WaitReady(ctx context.Context) error {
	select {
	case <-s.ready.whenOn():
		return nil
	case <-s.refusing:
		return fmt.Errorf("confirms: wait for the broker: %w", model.ErrClosed)
	case <-ctx.Done():
		if last := s.LastError(); last != nil {
			return fmt.Errorf("confirms: wait for the broker: %w: %w", ctx.Err(), last)
		}
		return fmt.Errorf("confirms: wait for the broker: %w", ctx.Err())
	}
}

// LastError returns why there is no connection: the last failed dial or the loss of the
// last connection. It is nil while connected and never holds a secret.
func (s *Sender) LastError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.lastErr
}

// FrameMax returns the frame size of the last connection in bytes, 131072 before the
// first.
func (s *Sender) FrameMax() int { return int(s.frameMax.Load()) }

// ConfirmTimeout returns how long a confirm may take before its outcome is unknown: what a
// lease on a row that is being sent must outlast.
func (s *Sender) ConfirmTimeout() time.Duration { return s.cfg.ConfirmTimeout }

// TryReserve takes room for n messages with together so many body bytes, if there is room
// and the sender is Ready. Each message reserved is then given to Send or to Release.
func (s *Sender) TryReserve(n int, bytes int64) bool { return s.reserved.try(n, bytes) }

// Reserve waits for what TryReserve tries. Waiters are served in order. The error is
// ctx's, model.ErrClosed, or says that so much can never fit.
func (s *Sender) Reserve(ctx context.Context, n int, bytes int64) error {
	if err := s.reserved.wait(ctx, n, bytes); err != nil {
		return fmt.Errorf("confirms: reserve: %w", err)
	}
	return nil
}

// Release gives back room that was reserved and will not be used by Send.
func (s *Sender) Release(n int, bytes int64) { s.reserved.release(n, bytes) }

// Send takes the message on and returns at once; the handler gets the outcome. It uses
// up one message and its body's bytes of reserved room, which are free again when Done is
// called. After Close the outcome is Deferred, told from a goroutine that lives no longer
// than its Done.
func (s *Sender) Send(send Send) {
	p := &pending{Send: send, sender: s, role: s.publish}
	if send.Alone {
		p.role = s.quarantine
	}
	s.pending.Add(1)
	s.sendMu.RLock()
	defer s.sendMu.RUnlock()
	if s.closing.Load() {
		s.tellDeferred(p, s.whyNotSent(p.role))
		return
	}
	if why, waits := s.admit(p); waits {
		s.tell(p, why)
		return
	}
	s.requeue(p)
}

// requeue puts p into its queue. There is room for all that is reserved; a send without
// reservation may find none.
func (s *Sender) requeue(p *pending) {
	role := p.role // once queued it is a channel's, which may hand it to another role
	select {
	case role.queue <- p:
	default:
		s.tellDeferred(p, "sent without reserved room")
		return
	}
	if role.alone {
		signal(s.suspects)
	}
}

// unpend counts an outcome told.
func (s *Sender) unpend() {
	if s.pending.Add(-1) == 0 && s.closing.Load() {
		signal(s.drained)
	}
}

// Close refuses new sends, waits for the outcomes of the accepted ones until ctx ends,
// and closes the connection. What is then left gets its outcome: Unknown if it was sent,
// Deferred if not; the error is then model.ErrNotDrained with their number. It returns
// soon after ctx has ended at the latest, when all goroutines of the sender have ended,
// except that a Send after that starts one (see [Sender.Send]). Closing twice waits for the
// first and returns nil.
func (s *Sender) Close(ctx context.Context) error {
	var left int64
	s.closeOnce.Do(func() { left = s.close(ctx) })
	<-s.finished
	if left > 0 {
		return fmt.Errorf("confirms: close: %w: %d sends had no outcome yet", model.ErrNotDrained, left)
	}
	return nil
}

// Bounds of the end of a connection: how long the broker may take to say goodbye.
const (
	minCloseGrace = 250 * time.Millisecond
	maxCloseGrace = 2 * time.Second
)

func (s *Sender) close(ctx context.Context) (left int64) {
	s.sendMu.Lock()
	s.closing.Store(true)
	s.sendMu.Unlock()
	close(s.refusing)
	s.reserved.close()
	s.mu.Lock()
	s.derive()
	s.mu.Unlock()
	for done := false; !done && s.pending.Load() > 0; {
		select {
		case <-s.drained:
		case <-ctx.Done():
			done = true
		}
	}
	left = s.pending.Load()
	s.closeBy = time.Now().Add(maxCloseGrace)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(s.closeBy) {
		s.closeBy = deadline
	}
	if ctx.Err() != nil {
		s.closeBy = time.Now()
	}
	close(s.stop)
	return left
}

// closeGrace is what is left of Close's time for a graceful end, within bounds.
func (s *Sender) closeGrace() time.Duration {
	select {
	case <-s.stop:
		return max(time.Until(s.closeBy), minCloseGrace)
	default: // a connection ends that is not needed
		return minCloseGrace
	}
}
