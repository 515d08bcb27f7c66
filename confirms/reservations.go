package confirms

import (
	"context"
	"fmt"
	"sync"

	"github.com/transmsg/transmsg/model"
)

// room counts what is reserved or sent and not done, and grants it while the engine
// is ready.
type reservations struct {
	maxN     int
	maxBytes int64

	mu      sync.Mutex
	n       int
	bytes   int64
	ready   bool
	closed  bool
	waiters []*waiter // first come, first served
}

type waiter struct {
	n       int
	bytes   int64
	granted chan struct{} // closed with done or err set
	err     error
}

func (r *reservations) fits(n int, bytes int64) bool {
	return r.ready && !r.closed && r.n+n <= r.maxN && r.bytes+bytes <= r.maxBytes
}

// try takes room at once, or not. Whoever waits comes first.
func (r *reservations) try(n int, bytes int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiters) > 0 || !r.fits(n, bytes) {
		return false
	}
	r.n += n
	r.bytes += bytes
	return true
}

func (r *reservations) wait(ctx context.Context, n int, bytes int64) error {
	if n < 0 || bytes < 0 || n > r.maxN || bytes > r.maxBytes {
		return fmt.Errorf("%d messages with %d bytes can never fit: MaxPending is %d, MaxPendingBytes %d",
			n, bytes, r.maxN, r.maxBytes)
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return model.ErrClosed
	}
	if len(r.waiters) == 0 && r.fits(n, bytes) {
		r.n += n
		r.bytes += bytes
		r.mu.Unlock()
		return nil
	}
	w := &waiter{n: n, bytes: bytes, granted: make(chan struct{})}
	r.waiters = append(r.waiters, w)
	r.mu.Unlock()
	select {
	case <-w.granted:
		return w.err
	case <-ctx.Done():
		return r.abandon(w, ctx.Err())
	}
}

// abandon takes w off the list; a grant that came first is given back.
func (r *reservations) abandon(w *waiter, cause error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, other := range r.waiters {
		if other == w {
			r.waiters = append(r.waiters[:i], r.waiters[i+1:]...)
			r.grant() // w may have stood in front of one that fits
			return cause
		}
	}
	if w.err == nil {
		r.n -= w.n
		r.bytes -= w.bytes
		r.grant()
	}
	return cause
}

func (r *reservations) release(n int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n -= n
	r.bytes -= bytes
	if len(r.waiters) > 0 {
		r.grant()
	}
}

func (r *reservations) setReady(ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = ready
	r.grant()
}

func (r *reservations) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, w := range r.waiters {
		w.err = model.ErrClosed
		close(w.granted)
	}
	r.waiters = nil
}

// grant serves waiters in order while the first one fits. Called with mu held.
func (r *reservations) grant() {
	for len(r.waiters) > 0 && r.fits(r.waiters[0].n, r.waiters[0].bytes) {
		w := r.waiters[0]
		r.waiters = r.waiters[1:]
		r.n += w.n
		r.bytes += w.bytes
		close(w.granted)
	}
}

func (r *reservations) used() (n int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n, r.bytes
}
