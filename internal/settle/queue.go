package settle

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// retryMax caps the wait between two tries of a write that fails.
	retryMax = time.Second
	// closeGrace is how long close waits, beyond its context, for a write that was cut
	// off to come back.
	closeGrace = 2 * time.Second
)

// queue is a queue with one writer goroutine that lives while there is work. Items leave
// in batches and stay in the queue until their write has succeeded. An item that cannot
// be written goes behind the others: it must not hold them up.
type queue[T any] struct {
	linger time.Duration
	// write returns the items of the batch that must be written again, with the reason.
	// An error without items means the whole batch.
	write func(context.Context, []T) (left []T, err error)

	mu      sync.Mutex
	items   []entry[T] // not yet written, the ones being written included
	added   uint64
	running bool
	closed  bool
	kick    chan struct{}   // ends a linger early: a batch is full, or somebody waits
	hurry   int             // flushes and closes in progress
	changed chan struct{}   // closed and replaced after each write; ends waits
	ctx     context.Context //nolint:containedctx // the queue outlives any caller's context; close ends it
	cancel  context.CancelFunc
	idle    chan struct{} // closed while no writer runs; replaced when one starts
}

// entry is an item with its place in the order of adding, so that a flush knows its own.
type entry[T any] struct {
	item T
	seq  uint64
}

func (l *queue[T]) init(linger time.Duration, write func(context.Context, []T) ([]T, error)) {
	l.linger, l.write = linger, write
	l.kick = make(chan struct{}, 1)
	l.changed = make(chan struct{})
	l.idle = make(chan struct{})
	close(l.idle)
	l.ctx, l.cancel = context.WithCancel(context.Background())
}

func (l *queue[T]) add(item T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.added++
	l.items = append(l.items, entry[T]{item, l.added})
	if !l.running {
		l.running = true
		l.idle = make(chan struct{})
		go l.run()
	}
	if len(l.items) == maxBatch {
		l.wake()
	}
}

func (l *queue[T]) pending() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.items)
}

// run writes batches until the queue is empty or the queue is closed for good. After a
// failure the batches shrink down to single items, so that one that cannot be written is
// soon alone, and grow again with every success.
func (l *queue[T]) run() {
	failures, size := 0, maxBatch
	for {
		batch, ok := l.next(size)
		if !ok {
			return
		}
		left, err := l.write(l.ctx, batch)
		if err != nil && left == nil {
			left = batch
		}
		l.done(batch, len(left), left)
		if err == nil {
			failures, size = 0, min(2*size, maxBatch)
			continue
		}
		if len(left) == len(batch) {
			size = max(len(batch)/2, 1)
		}
		failures++
		l.backoff(failures)
	}
}

// next returns the items to write now, after a linger where the batch is not full.
func (l *queue[T]) next(size int) ([]T, bool) {
	l.mu.Lock()
	wait := l.linger > 0 && len(l.items) > 0 && len(l.items) < size && l.hurry == 0
	l.mu.Unlock()
	if wait {
		l.sleep(l.linger)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.items) == 0 || l.ctx.Err() != nil {
		l.running = false
		close(l.idle)
		return nil, false
	}
	batch := make([]T, min(len(l.items), size))
	for i := range batch {
		batch[i] = l.items[i].item
	}
	return batch, true
}

// done takes the batch off the front of the queue and puts what is left to its end.
func (l *queue[T]) done(batch []T, n int, left []T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// What is left gets the oldest places of its batch: a flush then waits for at least
	// what it should.
	places := l.items[:n]
	rest := make([]entry[T], n)
	for i, item := range left {
		rest[i] = entry[T]{item, places[i].seq}
	}
	clear(l.items[:len(batch)])
	l.items = append(l.items[len(batch):], rest...)
	if len(l.items) == 0 {
		l.items = nil
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *queue[T]) backoff(failures int) {
	d := min(10*time.Millisecond<<min(failures, 10), retryMax)
	l.sleep(d/2 + rand.N(d/2))
}

// sleep waits for d, a kick or the end of the queue.
func (l *queue[T]) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.kick:
	case <-l.ctx.Done():
	}
}

func (l *queue[T]) wake() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}
