package settle

import (
	"context"
	"time"
)

// flush waits until all items added before the call are written, or ctx or the queue
// ends.
func (l *queue[T]) flush(ctx context.Context) error {
	l.mu.Lock()
	target := l.added
	l.hurry++
	l.wake()
	defer func() {
		l.mu.Lock()
		l.hurry--
		l.mu.Unlock()
	}()
	for l.holds(target) && l.ctx.Err() == nil {
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-l.ctx.Done():
		case <-ctx.Done():
			return ctx.Err()
		}
		l.mu.Lock()
	}
	l.mu.Unlock()
	return nil
}

// holds reports whether an item added up to target is still to be written. Called with
// mu held.
func (l *queue[T]) holds(target uint64) bool {
	for i := range l.items {
		if l.items[i].seq <= target {
			return true
		}
	}
	return false
}

// close refuses new items, waits for the rest within ctx, ends the writer and returns
// how many items were not written. It returns soon after ctx has ended even if a write
// does not come back.
func (l *queue[T]) close(ctx context.Context) int {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	_ = l.flush(ctx) // what is left is counted below
	l.cancel()
	l.mu.Lock()
	idle := l.idle
	l.mu.Unlock()
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
	return l.pending()
}
