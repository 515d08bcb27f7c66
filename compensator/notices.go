package compensator

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/transmsg/transmsg/model"
)

// maxNotices bounds the groups of notices in memory; beyond it they are logged alone.
const maxNotices = 1000

// notices are the alerts that stand in no table: rows of a newer version, broken
// exchanges, rows that wait for long. Whoever notices adds and never waits; run delivers,
// one alert per group and window. They die with the process: their causes show again, or
// as rows that wait for long.
type notices struct {
	cfg     *Config
	log     *slog.Logger
	sink    *sink
	windows *windows

	mu      sync.Mutex
	pending map[group]*Alert
}

// add notes one alert.
func (n *notices) add(a Alert) {
	a.Instance = n.cfg.Owner
	n.mu.Lock()
	defer n.mu.Unlock()
	switch g := n.pending[groupOf(&a)]; {
	case g != nil:
		merge(g, &a)
	case len(n.pending) >= maxNotices:
		n.log.Error("alert dropped: too many others wait", "alert", &a)
	default:
		a.Command = model.AlertCommand(&a)
		n.pending[groupOf(&a)] = &a
	}
}

// run delivers until draining ends, and then once more.
func (n *notices) run(draining, hard context.Context) {
	for sleep(draining, n.cfg.alertEvery()) {
		n.flush(hard)
	}
	n.flush(hard)
}

// flush delivers what may go out now. The first failure ends it.
func (n *notices) flush(hard context.Context) {
	for hard.Err() == nil && n.sink.rest() <= 0 {
		a := n.next()
		if a == nil {
			return
		}
		if n.sink.send(hard, *a) != nil {
			n.putBack(a)
			return
		}
		n.windows.open(groupOf(a), n.window(a.Kind))
	}
}

// next takes out an alert whose window is closed.
func (n *notices) next() *Alert {
	n.mu.Lock()
	defer n.mu.Unlock()
	for g, a := range n.pending {
		if closed, _ := n.windows.closed(g); closed {
			delete(n.pending, g)
			return a
		}
	}
	return nil
}

// putBack keeps an alert that was not accepted, with what was added meanwhile.
func (n *notices) putBack(a *Alert) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if newer := n.pending[groupOf(a)]; newer != nil {
		merge(a, newer)
	}
	n.pending[groupOf(a)] = a
}

// window is the time between two alerts of a group. Rows that wait are told again and
// again for as long as they do, so less often.
func (n *notices) window(kind model.AlertKind) time.Duration {
	if kind == model.AlertOldest {
		return max(n.cfg.AlertWindow, n.cfg.OldestReady)
	}
	return n.cfg.AlertWindow
}
