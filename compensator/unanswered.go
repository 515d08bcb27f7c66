package compensator

import (
	"context"
	"sync"
)

// unanswered counts the rows handed to the sender whose outcome is not known yet.
type unanswered struct {
	mu    sync.Mutex
	rows  int
	bytes int64
	wake  chan struct{} // one slot: something landed
}

func newUnanswered() *unanswered { return &unanswered{wake: make(chan struct{}, 1)} }

func (u *unanswered) start(bytes int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.rows++
	u.bytes += int64(bytes)
}

func (u *unanswered) done(bytes int) {
	u.mu.Lock()
	u.rows--
	u.bytes -= int64(bytes)
	u.mu.Unlock()
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

func (u *unanswered) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.rows
}

// wait returns when at most so many rows and bytes are outstanding, or with the cause of
// ctx. Only one goroutine may wait.
func (u *unanswered) wait(ctx context.Context, rows int, bytes int64) error {
	for {
		u.mu.Lock()
		ok := u.rows <= rows && u.bytes <= bytes
		u.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-u.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
