package main

import (
	"fmt"
	"slices"
)

// summary is the last line of a run. Durations are for the reader; none decides but the
// recoveries.
type summary struct {
	Name    string `json:"name"`
	Seed    uint64 `json:"seed"`
	Store   string `json:"store"`
	Mode    string `json:"mode,omitempty"`
	Seconds int    `json:"seconds"`
	Pass    bool   `json:"pass"`
	// Breaches say what does not hold, with the story of a few of the messages concerned.
	Breaches []string `json:"breaches"`

	Published  int `json:"published"`   // messages of calls that returned nil
	NotStored  int `json:"not_stored"`  // of calls that certainly stored nothing
	Ambiguous  int `json:"ambiguous"`   // of the other calls
	Delivered  int `json:"delivered"`   // messages that arrived
	Deliveries int `json:"deliveries"`  // with repeats, and one for each queue
	Lost       int `json:"lost"`        // published and neither delivered nor in the table
	Phantom    int `json:"phantom"`     // delivered or stored and not published, or changed
	Repeats    int `json:"repeats"`     // sent again by the product and delivered again
	Redeliver  int `json:"redelivered"` // delivered again by the broker by itself

	Unexplained int            `json:"unexplained"`
	Causes      map[string]int `json:"repeat_causes"`

	Faults     int            `json:"faults"`
	FaultKinds map[string]int `json:"fault_kinds"`
	// Bites are the sums of what the proofs counted.
	Bites map[string]int `json:"bites"`

	LongestStallMS int64 `json:"longest_stall_ms"` // without a delivery or without an OK, outside of faults
	// RecoveryMS is the longest time from a fault's end to the next OK, delivery and answer to
	// a compensator.
	RecoveryMS map[string]recovery `json:"recovery_ms"`

	ReadyLeft int      `json:"ready_left"`
	DeadLeft  int      `json:"dead_left"`
	Died      []string `json:"died"` // processes that ended by themselves

	// Consumed is about the queue that processes of the product consume, with --consumers.
	Consumed *consumed `json:"consumed,omitempty"`

	// Thirds are the medians of the middle third and of the last third of the samples.
	Thirds map[string][2]float64 `json:"thirds,omitempty"`
}

// recovery is in milliseconds.
type recovery struct {
	Publish    int64 `json:"publish"`
	Deliver    int64 `json:"deliver"`
	Compensate int64 `json:"compensate"`
}

func (s *summary) fail(format string, args ...any) {
	s.Pass = false
	s.Breaches = append(s.Breaches, fmt.Sprintf(format, args...))
}

// samples of one kind of breach that are told in full.
const samples = 3

func (s *summary) failAll(what string, stories []string) {
	if len(stories) == 0 {
		return
	}
	slices.Sort(stories)
	s.fail("%s: %d, such as %q", what, len(stories), stories[:min(len(stories), samples)])
}

// summarize weighs a run that has ended, or tells why it could not.
func (r *run) summarize(err error) summary {
	s := summary{
		Name: "chaos", Seed: r.opts.seed, Store: r.opts.store, Mode: r.opts.mode, Seconds: r.opts.seconds, Pass: true,
		Breaches: []string{},
		Causes:   map[string]int{}, FaultKinds: map[string]int{}, Bites: map[string]int{},
		RecoveryMS: map[string]recovery{}, Died: []string{},
	}
	if err != nil {
		s.fail("the run could not be carried out: %v", err)
	}
	s.addFaults(r.faults)
	if r.fleet == nil {
		return s
	}
	if s.Died = r.fleet.died(); len(s.Died) > 0 {
		s.fail("ended by themselves: %v", s.Died)
	}
	if err != nil {
		return s
	}
	e := &evidence{
		book: r.book, counter: r.counter, members: map[string]*member{}, faults: r.faults, rows: map[string]string{},
	}
	for _, m := range r.fleet.all {
		e.members[m.spec.Name] = m
	}
	for _, x := range r.rows {
		e.rows[x.id] = x.status
	}
	// The consumer is still connected; nothing arrives any more.
	r.counter.mu.Lock()
	defer r.counter.mu.Unlock()
	if r.opts.consumers {
		s.addConsumed(e.consumed(r.effects), r.dead)
	}
	s.addAccount(e.weigh())
	if len(r.left) > 0 {
		s.fail("not back at the baseline: %q", r.left)
	}
	s.addTimes(r)
	if r.opts.samples != "" {
		if err := s.addSamples(r.opts.samples, r.samples); err != nil {
			s.fail("samples: %v", err)
		}
	}
	return s
}

func (s *summary) addAccount(a account) {
	s.Published, s.NotStored, s.Ambiguous = a.ok, a.no, a.maybe
	s.Delivered, s.Deliveries, s.Redeliver = a.delivered, a.deliveries, a.redelivered
	s.Lost, s.Phantom, s.Repeats, s.Unexplained = len(a.lost), len(a.phantom), a.repeats, len(a.unexplained)
	s.Causes, s.ReadyLeft, s.DeadLeft = a.causes, a.ready, a.dead
	s.failAll("lost", a.lost)
	s.failAll("phantom", a.phantom)
	s.failAll("unexplained repeats", a.unexplained)
	if a.stuck > 0 {
		s.fail("routable messages that stay READY while everything is well: %d", a.stuck)
	}
	if a.given > 0 && s.Mode != "" {
		s.fail("routable messages that an outage made DEAD: %d", a.given)
	}
	if a.ok == 0 || a.delivered == 0 {
		s.fail("nothing was published or delivered: the run proves nothing")
	}
}

func (s *summary) addFaults(faults []done) {
	for _, d := range faults {
		s.Faults++
		s.FaultKinds[d.Kind]++
		s.Bites[d.Kind] += d.Proof.Count
		switch {
		case d.Err != nil:
			s.fail("fault: %v", d.Err)
		case d.Proof.Count == 0:
			s.fail("fault %s did not bite: no %s", d.Kind, d.Proof.What)
		}
	}
}
