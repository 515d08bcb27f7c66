package consumer

import (
	"context"
	"math/rand/v2"
	"sync"
)

// keyLock is a lock for each key.
type keyLock struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed when it is free
}

// lock waits for the key and returns how to free it, or why ctx ended.
func (k *keyLock) lock(ctx context.Context, key string) (unlock func(), err error) {
	for {
		k.mu.Lock()
		free, held := k.held[key]
		if !held {
			free = make(chan struct{})
			k.held[key] = free
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				delete(k.held, key)
				k.mu.Unlock()
				close(free)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-free:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func startAt(n int) int { return rand.IntN(n) }
