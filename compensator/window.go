package compensator

import (
	"sync"
	"time"

	"github.com/transmsg/transmsg/model"
)

// windowSlack is how long after the end of its window a group's rows still gather: they
// come due again one after the other, within the latency of the database.
const windowSlack = 500 * time.Millisecond

// group is what one alert is about.
type group struct {
	kind                          model.AlertKind
	service, exchange, routingKey string
	code                          model.Code
}

func groupOf(a *Alert) group {
	return group{
		kind: a.Kind, service: a.Service, exchange: a.Exchange, routingKey: a.RoutingKey, code: a.Code,
	}
}

// windows remembers until when no further alert of a group is sent. It is this process's
// memory: after a restart the first alert of each group goes out at once again.
type windows struct {
	mu    sync.Mutex
	until map[group]time.Time
}

// closed reports whether an alert of the group may go out, and else how long its rows are
// to wait, at least 1 ms.
func (w *windows) closed(g group) (bool, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	until, ok := w.until[g]
	left := time.Until(until)
	if !ok || left <= -windowSlack {
		return true, 0
	}
	return false, max(left, time.Millisecond)
}

// open begins a window and forgets those that are over.
func (w *windows) open(g group, length time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for other, until := range w.until {
		if time.Since(until) > windowSlack {
			delete(w.until, other)
		}
	}
	w.until[g] = time.Now().Add(length)
}
