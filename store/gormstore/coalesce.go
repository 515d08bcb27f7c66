package gormstore

import (
	"runtime"
	"slices"
	"sync"
)

// maxYields bounds how often the runner lets other goroutines go first.
const maxYields = 8

// coalescer joins what concurrent callers add while one batch runs into the next batch.
// There is no linger: an added item runs at once when nothing else does. Its runner
// goroutine exists only while there is work; close waits for it. Memory is bounded by
// the callers, who wait for their items.
type coalescer[T comparable] struct {
	take func(queue []T) int // how many of the first items, at least 1, make a batch
	run  func(batch []T)     // runs a batch and tells its items' waiters

	mu      sync.Mutex
	idle    sync.Cond
	queue   []T
	running bool
	closed  bool
}

func newCoalescer[T comparable](take func([]T) int, run func([]T)) *coalescer[T] {
	c := &coalescer[T]{take: take, run: run}
	c.idle.L = &c.mu
	return c
}

// add queues an item and reports whether it did: not after close.
func (c *coalescer[T]) add(item T) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.queue = append(c.queue, item)
	if !c.running {
		c.running = true
		go c.loop()
	}
	return true
}

// remove takes back an item and reports whether it still waited: then it never runs.
func (c *coalescer[T]) remove(item T) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.queue, item)
	if i < 0 {
		return false
	}
	c.queue = slices.Delete(c.queue, i, i+1)
	return true
}

// loop runs batch after batch until nothing waits.
func (c *coalescer[T]) loop() {
	var batch []T
	for {
		c.yield()
		c.mu.Lock()
		if len(c.queue) == 0 {
			c.running = false
			c.idle.Broadcast()
			c.mu.Unlock()
			return
		}
		n := c.take(c.queue)
		batch = append(batch[:0], c.queue[:n]...)
		c.queue = slices.Delete(c.queue, 0, n)
		c.mu.Unlock()
		c.run(batch)
		clear(batch)
	}
}

// yield lets goroutines that are ready to run go first, as long as that adds items. A
// batch that ends wakes all its callers at once; without this the next statement took
// only what the first of them had added (32 rows of 64 callers, 45 with it). It waits for
// no clock and no event.
func (c *coalescer[T]) yield() {
	for have, i := 0, 0; i < maxYields; i++ {
		runtime.Gosched()
		c.mu.Lock()
		n := len(c.queue)
		c.mu.Unlock()
		if n <= have {
			return
		}
		have = n
	}
}

// close refuses further items and waits until those that were added have run.
func (c *coalescer[T]) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for c.running {
		c.idle.Wait()
	}
}
