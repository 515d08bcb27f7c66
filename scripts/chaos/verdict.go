package main

import (
	"fmt"
	"slices"
)

// account is what the comparison of the records comes to.
type account struct {
	ok, no, maybe int // messages by what their callers know
	delivered     int // messages that arrived at least once
	deliveries    int
	lost          []string
	phantom       []string
	repeats       int
	redelivered   int // the broker's own repeats
	unexplained   []string
	causes        map[string]int // of repeats
	ready, dead   int            // rows left
	stuck         int            // READY rows of messages that have a queue
	given         int            // DEAD rows of messages that have a queue
}

// evidence is what is compared.
type evidence struct {
	book    *book
	counter *counter
	members map[string]*member
	faults  []done
	rows    map[string]string // id to status
}

// knows is what the callers of a message know together: one that was told ok counts for
// all, and a no counts only when nobody was told anything else.
func (m *intended) knows() verdict {
	all := verdictNo
	for _, c := range m.calls {
		switch c.verdict {
		case verdictOK:
			return verdictOK
		case verdictNo:
		default: // also a call without a result
			all = verdictMaybe
		}
	}
	return all
}

// weigh compares ledger, deliveries, send logs and the table.
func (e *evidence) weigh() account {
	a := account{causes: map[string]int{}}
	for id, m := range e.book.intents {
		switch m.knows() {
		case verdictOK:
			a.ok++
			e.checkKept(&a, id, m)
		case verdictNo:
			a.no++
			if status, there := e.rows[id]; there {
				a.phantom = append(a.phantom,
					fmt.Sprintf("%s stored (%s) though not published: %s", id, status, e.story(id)))
			}
		default:
			a.maybe++
		}
	}
	arrived := map[string]bool{}
	for at, got := range e.counter.got {
		a.deliveries += len(got.plain) + got.redelivered
		a.redelivered += got.redelivered
		m := e.book.intents[at.id]
		if m == nil || m.knows() == verdictNo || !slices.Contains(routes()[m.route].queues, at.queue) {
			a.phantom = append(a.phantom, fmt.Sprintf("%s in %s: %s", at.id, at.queue, e.story(at.id)))
			continue
		}
		arrived[at.id] = true
		if len(got.plain) > 1 {
			e.explain(&a, at, m, got)
		}
	}
	a.delivered = len(arrived)
	for _, id := range e.counter.changed {
		a.phantom = append(a.phantom, id+": body changed on the way")
	}
	e.countRows(&a)
	return a
}

// checkKept looks where a message is that was promised.
func (e *evidence) checkKept(a *account, id string, m *intended) {
	if _, stored := e.rows[id]; stored {
		return
	}
	queues := routes()[m.route].queues
	if len(queues) == 0 {
		a.lost = append(a.lost, id+" unroutable and not in the table: "+e.story(id))
	}
	for _, queue := range queues {
		if e.counter.got[place{id, queue}] == nil {
			a.lost = append(a.lost, fmt.Sprintf("%s neither in %s nor in the table: %s", id, queue, e.story(id)))
		}
	}
}

func (e *evidence) countRows(a *account) {
	for id, status := range e.rows {
		if status == "DEAD" {
			a.dead++
			if m := e.book.intents[id]; m == nil || len(routes()[m.route].queues) > 0 {
				a.given++
			}
			continue
		}
		a.ready++
		if m := e.book.intents[id]; m == nil || len(routes()[m.route].queues) > 0 {
			a.stuck++
		}
	}
}

// story is all that is known of a message, for the person who looks into a breach.
func (e *evidence) story(id string) string {
	s := ""
	if m := e.book.intents[id]; m != nil {
		s = "route " + m.route
		for _, c := range m.calls {
			s += fmt.Sprintf("; call at %s: %s until %s (%s)",
				e.when(c.at), word(string(c.verdict)), e.when(c.done), c.why)
		}
	}
	for _, x := range e.book.sends[id] {
		s += fmt.Sprintf("; sent by %s at %s: %s %s at %s", x.proc, e.when(x.at), word(x.kind), x.code, e.when(x.done))
		if x.late {
			s += " and acked late"
		}
	}
	for _, queue := range queues() {
		if got := e.counter.got[place{id, queue}]; got != nil {
			s += "; in " + queue
			for _, at := range got.plain {
				s += " at " + e.when(at)
			}
			if got.redelivered > 0 {
				s += fmt.Sprintf(" and %d redelivered", got.redelivered)
			}
		}
	}
	return s
}

// when is seconds since the first fault, or since the epoch without one.
func (e *evidence) when(at int64) string {
	if at == 0 {
		return "never"
	}
	var zero int64
	if len(e.faults) > 0 {
		zero = e.faults[0].From
	}
	return fmt.Sprintf("%.3f", float64(at-zero)/1e9)
}
