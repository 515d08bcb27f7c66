package settle

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// retryMax caps the wait between two tries of a write that fails.
const retryMax = time.Second

// lane is a queue with one writer goroutine that lives while there is work: items leave
// in batches, in order, and stay in the queue until their write has succeeded.
type lane[T any] struct {
	max    int
	linger time.Duration
	write  func(context.Context, []T) error

	mu      sync.Mutex
	items   []T // not yet written; the first `taken` are being written
	added   uint64
	written uint64
	running bool
	closed  bool
	kick    chan struct{}   // ends a linger early: a batch is full, or somebody waits
	hurry   int             // flushes and closes in progress
	changed chan struct{}   // closed and replaced after each write; ends waits
	ctx     context.Context //nolint:containedctx // the lane outlives any caller's context; close ends it
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

func (l *lane[T]) init(batch int, linger time.Duration, write func(context.Context, []T) error) {
	l.max, l.linger, l.write = batch, linger, write
	l.kick = make(chan struct{}, 1)
	l.changed = make(chan struct{})
	l.ctx, l.cancel = context.WithCancel(context.Background())
}

func (l *lane[T]) add(item T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.items = append(l.items, item)
	l.added++
	if !l.running {
		l.running = true
		l.wg.Add(1)
		go l.run()
	}
	if len(l.items) == l.max {
		l.wake()
	}
}

func (l *lane[T]) pending() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.items)
}

// run writes batches until the queue is empty or the lane is closed for good.
func (l *lane[T]) run() {
	defer l.wg.Done()
	failures := 0
	for {
		batch, ok := l.next()
		if !ok {
			return
		}
		if err := l.write(l.ctx, batch); err != nil {
			failures++
			l.backoff(failures)
			continue
		}
		failures = 0
		l.done(len(batch))
	}
}

// next returns the items to write now, after a linger where the batch is not full.
func (l *lane[T]) next() ([]T, bool) {
	l.mu.Lock()
	wait := l.linger > 0 && len(l.items) > 0 && len(l.items) < l.max && l.hurry == 0
	l.mu.Unlock()
	if wait {
		l.sleep(l.linger)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.items) == 0 || l.ctx.Err() != nil {
		l.running = false
		return nil, false
	}
	n := min(len(l.items), l.max)
	return append([]T(nil), l.items[:n]...), true
}

func (l *lane[T]) done(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.items[:n])
	l.items = l.items[n:]
	if len(l.items) == 0 {
		l.items = nil
	}
	l.written += uint64(n)
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *lane[T]) backoff(failures int) {
	d := min(10*time.Millisecond<<min(failures, 10), retryMax)
	l.sleep(d/2 + rand.N(d/2))
}

// sleep waits for d, a kick or the end of the lane.
func (l *lane[T]) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.kick:
	case <-l.ctx.Done():
	}
}

func (l *lane[T]) wake() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// flush waits until all items added before the call are written.
func (l *lane[T]) flush(ctx context.Context) error {
	l.mu.Lock()
	target := l.added
	l.hurry++
	l.wake()
	defer func() {
		l.mu.Lock()
		l.hurry--
		l.mu.Unlock()
	}()
	for l.written < target && l.ctx.Err() == nil {
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

// close refuses new items, waits for the rest within ctx, ends the writer and returns
// how many items were not written.
func (l *lane[T]) close(ctx context.Context) int {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	_ = l.flush(ctx) // what is left is counted below
	l.cancel()
	l.wg.Wait()
	return l.pending()
}
