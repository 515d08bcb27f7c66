package compensator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// alertTimeout bounds one call of an Alerter.
	alertTimeout = 5 * time.Second
	// alertRetry is the wait after a failed call; it doubles up to alertRetryMax.
	alertRetry    = time.Second
	alertRetryMax = time.Minute
	// throttleMax bounds what a sink may ask for.
	throttleMax = 10 * time.Minute
)

var (
	errSinkBusy = errors.New("the call before has not returned")
	errSinkMute = errors.New("no answer in time")
)

// sink calls one Alerter: never two calls at a time, never for longer than 5 s, and not
// again at once after a failure. What it was told of, and when it may be told again, is its
// own: a sink that throttles or hangs costs the others nothing.
type sink struct {
	cfg      *Config
	alerter  Alerter
	log      *slog.Logger
	observed func(Alert, bool)
	windows  *windows
	busy     chan struct{} // one slot

	mu       sync.Mutex
	failures int
	resting  time.Time     // no call before
	failed   map[group]int // failures in a row of an alert of DEAD rows, to send what failed last
}

func newSink(cfg *Config, alerter Alerter, log *slog.Logger) *sink {
	return &sink{
		cfg: cfg, alerter: alerter, log: log, observed: cfg.observer.Alert, windows: newWindows(),
		failed: map[group]int{}, busy: make(chan struct{}, 1),
	}
}

// rest is how long the sink is to be left alone.
func (s *sink) rest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.resting)
}

// send delivers one alert. An error has been logged.
func (s *sink) send(ctx context.Context, a Alert) error {
	s.cfg.complete(ctx, &a)
	err := s.call(ctx, a)
	s.mu.Lock()
	if err == nil {
		s.failures, s.resting = 0, time.Time{}
	} else {
		s.failures++
		s.resting = time.Now().Add(max(min(alertRetry<<min(s.failures-1, 10), alertRetryMax), asked(err)))
	}
	s.mu.Unlock()
	if err != nil {
		s.log.Error("alert not delivered", "alert", &a, "error", err)
	}
	s.observed(a, err == nil)
	return err
}

// maxFailed is more than any alert fails in a row while it counts.
const maxFailed = 1 << 20

// failedOf counts failures of a group's alert, and returns how many there are. A negative
// number takes them back.
func (s *sink) failedOf(g group, more int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.failed[g] + more; n > 0 {
		s.failed[g] = min(n, maxFailed)
	} else {
		delete(s.failed, g)
	}
	return s.failed[g]
}

// forget clears the failures: nothing is owed.
func (s *sink) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.failed)
}

// asked is how long a sink that throttles asked to be left alone.
func asked(err error) time.Duration {
	var t interface{ RetryAfter() time.Duration }
	if !errors.As(err, &t) {
		return 0
	}
	return min(t.RetryAfter(), throttleMax)
}

// throttles reports whether the failure was about the number of alerts, and not about this
// one.
func throttles(err error) bool {
	var t interface{ RetryAfter() time.Duration }
	return errors.As(err, &t)
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
