package compensator

import (
	"context"
	"sync"
)

// flight counts the rows handed to the sender whose outcome is not known yet.
type flight struct {
	mu    sync.Mutex
	rows  int
	bytes int64
	wake  chan struct{} // one slot: something landed
}

func newFlight() *flight { return &flight{wake: make(chan struct{}, 1)} }

func (f *flight) start(bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows++
	f.bytes += int64(bytes)
}

func (f *flight) land(bytes int) {
	f.mu.Lock()
	f.rows--
	f.bytes -= int64(bytes)
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *flight) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rows
}

// wait returns when at most so many rows and bytes are outstanding, or with the cause of
// ctx. Only one goroutine may wait.
func (f *flight) wait(ctx context.Context, rows int, bytes int64) error {
	for {
		f.mu.Lock()
		ok := f.rows <= rows && f.bytes <= bytes
		f.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
