package compensator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/transmsg/transmsg/model"
)

const (
	// alertTimeout bounds one call of the Alerter.
	alertTimeout = 5 * time.Second
	// alertRetry is the wait after a failed call; it doubles up to alertRetryMax.
	alertRetry    = time.Second
	alertRetryMax = time.Minute
)

// Alert is one alert; package model defines it.
type Alert = model.Alert

// Alerter delivers alerts to people. Package alert has implementations. It is called off
// the way of the messages, one call at a time, with a context of 5 s, and must return when
// that ends; nil means that the alert was accepted and will not be raised again. An error
// or a panic makes it be tried again, after a wait that grows to a minute, and later than
// that by another process if this one ends: an alert may thus be delivered twice.
type Alerter interface {
	Alert(context.Context, Alert) error
}

// logAlerter is the Alerter where none is configured.
type logAlerter struct{ log *slog.Logger }

// Alert implements [Alerter] and never fails.
func (l logAlerter) Alert(_ context.Context, a Alert) error {
	l.log.Error("needs attention", "alert", &a)
	return nil
}

var (
	errSinkBusy = errors.New("the call before has not returned")
	errSinkMute = errors.New("no answer in time")
)

// sink calls the Alerter: never two calls at a time, never for longer than 5 s, and not
// again at once after a failure.
type sink struct {
	alerter  Alerter
	log      *slog.Logger
	observed func(Alert, bool)
	busy     chan struct{} // one slot

	mu       sync.Mutex
	failures int
	resting  time.Time // no call before
}

func newSink(cfg *Config, log *slog.Logger) *sink {
	return &sink{alerter: cfg.Alerter, log: log, observed: cfg.Observer.Alert, busy: make(chan struct{}, 1)}
}

// rest is how long the sink is to be left alone.
func (s *sink) rest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.resting)
}

// send delivers one alert. An error has been logged.
func (s *sink) send(ctx context.Context, a Alert) error {
	err := s.call(ctx, a)
	s.mu.Lock()
	if err == nil {
		s.failures, s.resting = 0, time.Time{}
	} else {
		s.failures++
		s.resting = time.Now().Add(min(alertRetry<<min(s.failures-1, 10), alertRetryMax))
	}
	s.mu.Unlock()
	if err != nil {
		s.log.Error("alert not delivered", "alert", &a, "error", err)
	}
	s.observed(a, err == nil)
	return err
}

// call waits for the Alerter no longer than its time. One that ignores the end of its
// context keeps its goroutine and the slot until it returns.
func (s *sink) call(ctx context.Context, a Alert) error {
	ctx, cancel := context.WithTimeout(ctx, alertTimeout)
	select {
	case s.busy <- struct{}{}:
	case <-ctx.Done():
		cancel()
		return errSinkBusy
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-s.busy }()
		defer cancel()
		done <- s.try(ctx, a)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select { // both at once: the answer counts
	case err := <-done:
		return err
	default:
		return errSinkMute
	}
}

func (s *sink) try(ctx context.Context, a Alert) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("alerter panicked: %v", p)
		}
	}()
	return s.alerter.Alert(ctx, a)
}
