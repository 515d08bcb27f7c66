package scriptedbroker

import (
	"context"
	"sync"
)

// queue holds what has happened until the script asks for it. It never blocks
// the one who adds.
type queue[T any] struct {
	mu    sync.Mutex
	items []T
	added chan struct{} // Closed and replaced at each add.
}

func newQueue[T any]() *queue[T] { return &queue[T]{added: make(chan struct{})} }

func (q *queue[T]) add(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, item)
	close(q.added)
	q.added = make(chan struct{})
}

func (q *queue[T]) next(ctx context.Context) (item T, err error) {
	for {
		q.mu.Lock()
		if len(q.items) > 0 {
			item, q.items = q.items[0], q.items[1:]
			q.mu.Unlock()
			return item, nil
		}
		added := q.added
		q.mu.Unlock()
		select {
		case <-added:
		case <-ctx.Done():
			return item, ctx.Err()
		}
	}
}
