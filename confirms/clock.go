package confirms

import (
	"sync"
	"time"
)

// confirmClock measures time in which the broker could have answered: it stands still
// while the connection is blocked, so that an alarm times nothing out.
type confirmClock struct {
	mu     sync.Mutex
	since  time.Time     // start of the running stretch
	before time.Duration // sum of the earlier stretches
	paused bool
}

func newConfirmClock() *confirmClock { return &confirmClock{since: time.Now()} }

func (c *confirmClock) now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused {
		return c.before
	}
	return c.before + time.Since(c.since)
}

func (c *confirmClock) pause(paused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case paused && !c.paused:
		c.before += time.Since(c.since)
	case !paused && c.paused:
		c.since = time.Now()
	}
	c.paused = paused
}
