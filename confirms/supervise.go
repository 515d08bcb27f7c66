package confirms

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/transmsg/transmsg/internal/broker"
)

// repeatLog is how often an unchanged dial error is logged again.
const repeatLog = time.Minute

// supervise keeps the publishing session running until ctx ends, with stop: one connection at a time, a new
// one with jittered backoff after it is lost, for ever.
func (s *Sender) supervise(ctx context.Context) {
	next := rand.IntN(len(s.cfg.Addrs))
	for generation := uint64(1); ctx.Err() == nil; {
		d, ok := s.broker.DialUntil(ctx, &next, s.dialFailed)
		if !ok {
			return
		}
		se := newSession(s, s.publish, generation, d)
		generation++
		s.largest.Store(0) // another broker, or another configuration
		s.connected(se)
		err := se.run(s.stop)
		s.disconnected(se, err)
		// A moment before the next dial also after a healthy session: a broker that
		// accepts and drops must not be stormed.
		broker.Sleep(ctx, broker.Jitter(broker.MinBackoff))
	}
}

// dialFailed notes the error and logs it when it is news.
func (s *Sender) dialFailed(err error) {
	s.mu.Lock()
	news := s.state.lastErr == nil || s.state.lastErr.Error() != err.Error() || time.Since(s.loggedAt) > repeatLog
	s.state.lastErr = err
	if news {
		s.loggedAt = time.Now()
	}
	s.mu.Unlock()
	if news {
		s.log.Warn("no connection to the broker", "error", err)
	}
}

func (s *Sender) connected(se *session) {
	s.mu.Lock()
	s.state.session, s.state.generation, s.state.addr, s.state.lastErr = se, se.generation, se.addr, nil
	s.mu.Unlock()
	s.frameMax.Store(int64(se.frameMax))
	s.broken.Retry() // another broker, another login or other rights, perhaps
	s.log.Info("connected to the broker", "addr", se.addr, "generation", se.generation, "frame_max", se.frameMax)
	s.cfg.observer.Connected(se.addr, se.generation)
}

func (s *Sender) disconnected(se *session, err error) {
	select {
	case <-s.stop:
		s.log.Info("connection closed", "generation", se.generation)
		err = errors.New("closed")
	default:
		s.log.Warn("connection lost", "error", err, "generation", se.generation)
		s.mu.Lock()
		s.state.lastErr = err
		s.mu.Unlock()
	}
	s.cfg.observer.Disconnected(se.generation, err)
}
