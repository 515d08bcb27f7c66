package settle

import (
	"sync"
	"time"
)

const (
	// repeatsEvery is the time between two lines of one kind.
	repeatsEvery = 10 * time.Second
	// maxKinds bounds what is told apart; what is beyond shares a line.
	maxKinds = 100
)

// repeats gathers lines of the log that are equal but for details: the first of a kind is written
// by the caller at once, those that follow are one line each 10 s, with their count and the last of
// them as the sample. Safe for concurrent use.
type repeats[K comparable] struct {
	beyond func(K) K                // what a kind is taken for beyond maxKinds
	warn   func(kind K, line []any) // writes the line of several

	mu    sync.Mutex
	kinds map[K]*gathered
}

// gathered is what has not been told of one kind.
type gathered struct {
	count  int
	sample []any // the last one's fields
	timer  *time.Timer
}

func newRepeats[K comparable](beyond func(K) K, warn func(K, []any)) *repeats[K] {
	return &repeats[K]{beyond: beyond, warn: warn, kinds: map[K]*gathered{}}
}

// first reports whether nothing of this kind was told lately; else it gathers.
func (r *repeats[K]) first(kind K, fields []any) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kinds[kind] == nil && len(r.kinds) >= maxKinds {
		kind = r.beyond(kind)
	}
	if g := r.kinds[kind]; g != nil {
		g.count++
		g.sample = fields
		return false
	}
	g := &gathered{}
	g.timer = time.AfterFunc(repeatsEvery, func() { r.tell(kind, g) })
	r.kinds[kind] = g
	return true
}

// tell writes the line of what was gathered, and forgets a kind of which there was nothing.
func (r *repeats[K]) tell(kind K, g *gathered) {
	r.mu.Lock()
	if r.kinds[kind] != g { // flushed
		r.mu.Unlock()
		return
	}
	line := g.line()
	if line == nil {
		delete(r.kinds, kind)
	} else {
		g.timer.Reset(repeatsEvery)
	}
	r.mu.Unlock()
	if line != nil {
		r.warn(kind, line)
	}
}

// line takes what was gathered; nil is nothing.
func (g *gathered) line() []any {
	if g.count == 0 {
		return nil
	}
	line := append([]any{"count", g.count}, g.sample...)
	g.count, g.sample = 0, nil
	return line
}

// flush writes all that was gathered, and stops the timers.
func (r *repeats[K]) flush() {
	r.mu.Lock()
	all := r.kinds
	r.kinds = map[K]*gathered{}
	r.mu.Unlock()
	for kind, g := range all {
		g.timer.Stop()
		if line := g.line(); line != nil { // nobody else has g any more
			r.warn(kind, line)
		}
	}
}
