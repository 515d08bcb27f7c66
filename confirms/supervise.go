package confirms

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 3 * time.Second
	// repeatLog is how often an unchanged dial error is logged again.
	repeatLog = time.Minute
)

// supervise keeps the publishing session running until ctx ends, with stop: one connection at a time, a new
// one with jittered backoff after it is lost, for ever.
func (s *Sender) supervise(ctx context.Context) {
	next := rand.IntN(len(s.cfg.Addrs))
	for generation := uint64(1); ctx.Err() == nil; {
		d, ok := s.dialUntil(ctx, &next)
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
		sleep(ctx, jitter(minBackoff))
	}
}

// dialUntil tries the addresses in turn until one answers; after each round without
// success it waits.
func (s *Sender) dialUntil(ctx context.Context, next *int) (dialled, bool) {
	backoff := minBackoff
	for tries := 1; ; tries++ {
		addr := s.cfg.Addrs[*next%len(s.cfg.Addrs)]
		d, err := s.cfg.dial(ctx, addr)
		if err == nil {
			return d, true
		}
		*next++
		if ctx.Err() != nil {
			return dialled{}, false
		}
		s.dialFailed(err)
		if tries%len(s.cfg.Addrs) == 0 {
			if !sleep(ctx, jitter(backoff)) {
				return dialled{}, false
			}
			backoff = min(2*backoff, maxBackoff)
		}
	}
}

// jitter returns a duration between half of d and d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
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
	if f := s.cfg.Observer.Connected; f != nil {
		f(se.addr, se.generation)
	}
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
	if f := s.cfg.Observer.Disconnected; f != nil {
		f(se.generation, err)
	}
}
