package compensator

import (
	"fmt"
	"sync"
	"time"

	"github.com/transmsg/transmsg/model"
)

// A row that was acquitted closesMost times over closesTime by the database's clock, each time
// between two healthy sends, is guilty: of two such rows each would else acquit the other for ever.
const (
	closesMost = 3
	closesTime = 10 * time.Minute
)

// jury holds back, for a run, the rows that were alone on what the broker closed with a code
// that names nobody (541, 506, ...). A broker in trouble closes on whatever it is sent: a second
// such row of another route shows that, and acquits both for this run. A row that remains the
// only one is charged.
type jury struct {
	mu     sync.Mutex
	held   []accused
	routes map[int]map[route]bool // of this run, by the broker's reply code
	over   bool
}

type route struct{ exchange, key string }

type accused struct {
	send    *send
	outcome model.Outcome
	healthy bool // there was an ack since the row's last close
	at      time.Time
}

// accuse holds a row back that closed what it was alone on. After the end of the run nobody can
// speak for it any more.
func (r *run) accuse(s *send, o model.Outcome) {
	a := accused{send: s, outcome: o, healthy: r.c.health.closed(s.result.Row.ID), at: time.Now()}
	j := &r.jury
	j.mu.Lock()
	if j.routes == nil {
		j.routes = map[int]map[route]bool{}
	}
	if j.routes[a.outcome.Reply] == nil {
		j.routes[a.outcome.Reply] = map[route]bool{}
	}
	j.routes[a.outcome.Reply][route{s.message.Exchange, s.message.RoutingKey}] = true
	j.held = append(j.held, a)
	over := j.over
	j.mu.Unlock()
	if over {
		r.judge(0)
	}
}

// judge settles the rows that were held back for so long.
func (r *run) judge(after time.Duration) {
	j := &r.jury
	j.mu.Lock()
	var ripe, rest []accused
	several := map[int]bool{}
	for _, a := range j.held {
		several[a.outcome.Reply] = len(j.routes[a.outcome.Reply]) > 1
		if time.Since(a.at) >= after {
			ripe = append(ripe, a)
		} else {
			rest = append(rest, a)
		}
	}
	j.held = rest
	j.mu.Unlock()
	for _, a := range ripe {
		if several[a.outcome.Reply] {
			a.send.acquit(a)
		} else {
			a.send.settle(a.outcome)
		}
	}
}

// endJury judges those that are left, and each that comes later at once.
func (r *run) endJury() {
	r.jury.mu.Lock()
	r.jury.over = true
	r.jury.mu.Unlock()
	r.judge(0)
}

// acquit leaves the row uncharged, with its backoff, unless it has been acquitted often enough.
func (s *send) acquit(a accused) {
	row, o := s.result.Row, a.outcome
	over := model.MillisToDuration(row.UpdatedAt - row.ClosesSince) // the claim has just set UpdatedAt
	if a.healthy && row.Closes >= closesMost && over >= closesTime {
		s.settle(refusal(model.CodeOther, fmt.Errorf("%s; alone it closed its connection in %d runs over %v, "+
			"each time between two healthy sends", o.Text, row.Closes+1, over.Round(time.Second)), true))
		return
	}
	if a.healthy {
		s.result.Closes = 1
	}
	s.result.Delay = s.run.c.cfg.Policy.Delay(row.Failures+1, 0.5)
	s.settle(model.Outcome{Kind: model.Unknown, Code: model.CodeSuspect, Text: o.Text})
}

// healthMost bounds the rows whose last close is remembered.
const healthMost = 10_000

// health tells whether there was a healthy send between two closes of a row, as far as this
// process has seen them.
type health struct {
	mu    sync.Mutex
	acks  int
	marks map[string]int // acks at the row's last close
}

func (h *health) acked() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acks++
}

// closed notes a close and reports whether there was an ack since the last one of the row.
func (h *health) closed(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	healthy := h.acks > h.marks[id]
	if h.marks == nil || len(h.marks) >= healthMost {
		h.marks = map[string]int{}
	}
	h.marks[id] = h.acks
	return healthy
}
