package compensator

import (
	"sync"
	"time"
)

const (
	// windowSlack is how long after the end of its window a group's rows still gather: they
	// come due again one after the other, within the latency of the database.
	windowSlack = 500 * time.Millisecond
	// toldFor is how long after its window a group counts as one that was told of before.
	toldFor = time.Hour
)

// windows remembers until when no further alert of a group is sent. It is this process's
// memory: after a restart the first alert of each group goes out at once again.
type windows struct {
	mu    sync.Mutex
	until map[group]time.Time
}

func newWindows() *windows { return &windows{until: map[group]time.Time{}} }

// over reports whether no window of the group is open, so that its alert may go out, and else how long its rows are
// to wait, at least 1 ms.
func (w *windows) over(g group) (bool, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	until, ok := w.until[g]
	left := time.Until(until)
	if !ok || left <= -windowSlack {
		return true, 0
	}
	return false, max(left, time.Millisecond)
}

// open begins a window and forgets those that are long over.
func (w *windows) open(g group, length time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for other, until := range w.until {
		if time.Since(until) > toldFor {
			delete(w.until, other)
		}
	}
	w.until[g] = time.Now().Add(length)
}

// last is the end of the group's last window, zero for a group that is new.
func (w *windows) last(g group) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.until[g]
}

// opened returns the groups whose windows are open.
func (w *windows) opened() []group {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []group
	for g, until := range w.until {
		if time.Since(until) < windowSlack {
			out = append(out, g)
		}
	}
	return out
}
