package confirms

import (
	"context"
	"time"

	"github.com/transmsg/transmsg/internal/broker"
)

// isolate serves the quarantine until ctx ends, with stop: a connection of its own, opened
// for the first suspect and closed when none has come for a while. A message can make the
// broker end not its channel but the whole connection: on a connection that it shares with
// nobody that is its fault for certain, and no neighbour's loss.
func (s *Sender) isolate(ctx context.Context) {
	backoff := broker.MinBackoff
	if s.cfg.TrySuspects {
		s.trySuspects(ctx)
	}
	for generation := uint64(1); s.awaitSuspect(); generation++ {
		if s.serveSuspects(ctx, generation) {
			backoff = broker.MinBackoff
		} else {
			backoff = min(2*backoff, broker.MaxBackoff)
		}
		broker.Sleep(ctx, broker.Jitter(backoff))
	}
}

// trySuspects finds out, once publishing works, whether a connection for suspects can be
// had, and says so where it cannot.
func (s *Sender) trySuspects(ctx context.Context) {
	select {
	case <-s.quarantine.gate.whenOn():
	case <-s.stop:
		return
	}
	d, _, err := s.dialForSuspects(ctx)
	if err != nil {
		return
	}
	_ = d.Conn.CloseDeadline(time.Now().Add(minCloseGrace)) // it was a try
	d.Wire.Kill()
	<-d.Wire.Flushed
}

// SuspectsError returns why messages that must go alone wait: the last failed dial of their
// connection. It is nil when none was needed yet or the last one could be made, and never
// holds a secret.
func (s *Sender) SuspectsError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.suspectErr
}

// dialForSuspects connects to where the publishing connection is.
func (s *Sender) dialForSuspects(ctx context.Context) (broker.Dialled, string, error) {
	settings := s.broker
	settings.Name += " quarantine"
	s.mu.Lock()
	addr := s.state.addr
	s.mu.Unlock()
	d, err := settings.Dial(ctx, addr)
	if err != nil && ctx.Err() != nil {
		return d, addr, err
	}
	s.mu.Lock()
	s.state.suspectErr = err
	s.mu.Unlock()
	if err != nil {
		s.log.Warn("no connection for suspects: messages that must be sent alone wait", "error", err)
	}
	return d, addr, err
}

// awaitSuspect waits until a suspect is queued and may be sent; while it may not, it is
// deferQueued's.
func (s *Sender) awaitSuspect() bool {
	for {
		select {
		case <-s.quarantine.gate.whenOn():
		case <-s.stop:
			return false
		}
		if len(s.quarantine.queue) > 0 {
			return true
		}
		select {
		case <-s.suspects:
		case <-s.stop:
			return false
		}
	}
}

// serveSuspects connects to where the publishing connection is and sends until the
// connection ends. It reports whether there was one.
func (s *Sender) serveSuspects(ctx context.Context, generation uint64) bool {
	d, addr, err := s.dialForSuspects(ctx)
	if err != nil {
		s.deferAll(s.quarantine, "no connection for suspects: "+err.Error())
		return false
	}
	se := newSession(s, s.quarantine, generation, d)
	s.mu.Lock()
	s.state.isolated = se
	s.mu.Unlock()
	s.log.Info("connected to send suspects alone", "addr", addr, "generation", generation)
	err = se.run(s.stop)
	s.log.Info("connection for suspects ended", "reason", err, "generation", generation)
	s.mu.Lock()
	s.state.isolated = nil
	s.derive() // it may have been blocked
	s.mu.Unlock()
	for _, p := range se.exchanges.flush() {
		s.requeue(p)
	}
	return true
}

// isolatedIdle is how many of the watchdog's ticks without a suspect close their
// connection.
const isolatedIdle = int(10 * time.Second / watchTick)

// idle reports whether the session could end without anybody's loss: a quarantine without
// a send.
func (se *session) idle() bool {
	return se.role.alone && se.inFlight.Load() == 0 && len(se.role.queue) == 0
}
