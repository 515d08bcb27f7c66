package compensator

import (
	"context"
	"sync"
	"time"

	"github.com/transmsg/transmsg/model"
)

// maxConditions bounds the groups of conditions in memory; beyond it they are told by service and
// cause alone.
const maxConditions = 1000

// conditions are one sink's alerts that stand in no table: rows of a newer version, broken
// exchanges, rows that wait for long. Whoever sees one adds and never waits; run delivers,
// one alert per group and window. They die with the process: their causes show again, or
// as rows that wait for long.
type conditions struct {
	cfg  *Config
	sink *sink

	mu      sync.Mutex
	pending map[group]*Alert
}

// add notes one alert.
func (n *conditions) add(a Alert) {
	a.Instance = n.cfg.Instance
	n.mu.Lock()
	defer n.mu.Unlock()
	g := groupOf(&a)
	if n.pending[g] == nil && len(n.pending) >= maxConditions {
		g = g.widened(oneService)
	}
	n.put(g, &a)
}

// put merges an alert into its group; n.mu is held.
func (n *conditions) put(g group, a *Alert) {
	if have := n.pending[g]; have != nil {
		merge(have, a)
		return
	}
	n.pending[g] = a
}

// run delivers until draining ends, and then once more.
func (n *conditions) run(draining, hard context.Context) {
	for sleep(draining, n.cfg.alertEvery()) {
		n.flush(hard)
	}
	n.flush(hard)
}

// flush delivers what may go out now. The first failure ends it.
func (n *conditions) flush(hard context.Context) {
	for hard.Err() == nil && n.sink.rest() <= 0 {
		x, parts := n.next()
		if x == nil {
			return
		}
		if n.sink.send(hard, x.alert) != nil {
			n.putBack(parts)
			return
		}
		n.sink.windows.open(x.group, n.sink.window(x.group.kind))
	}
}

// next takes out an alert whose window is closed, with what it was folded from.
func (n *conditions) next() (*folded, map[group]*Alert) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.pending) == 0 {
		return nil, nil
	}
	alerts, groups := make([]*Alert, 0, len(n.pending)), make([]group, 0, len(n.pending))
	for g, a := range n.pending {
		alerts, groups = append(alerts, a), append(groups, g)
	}
	for _, x := range n.sink.inOrder(fold(n.sink.windows.opened(), alerts, groups)) {
		if over, _ := n.sink.windows.over(x.group); !over {
			continue
		}
		parts := map[group]*Alert{}
		for _, i := range x.members {
			parts[groups[i]] = alerts[i]
			delete(n.pending, groups[i])
		}
		return x, parts
	}
	return nil, nil
}

// putBack keeps what was not accepted, with what was added meanwhile.
func (n *conditions) putBack(parts map[group]*Alert) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for g, a := range parts {
		if newer := n.pending[g]; newer != nil {
			merge(a, newer)
		}
		n.pending[g] = a
	}
}

// window is the time between two alerts of a group. What lasts is told again and again for
// as long as it does, so less often.
func (s *sink) window(kind model.AlertKind) time.Duration {
	if kind == model.AlertOldest || kind == model.AlertSuspects {
		return max(s.cfg.AlertWindow, s.cfg.OldestReady)
	}
	return s.cfg.AlertWindow
}
