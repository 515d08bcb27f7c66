package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// stage is a small run made by hand: lines of the records of two publishers and two
// compensators, deliveries and rows.
type stage struct {
	t *testing.T
	*evidence
	take map[string]func(string) error
}

func newStage(t *testing.T) *stage {
	b := newBook()
	s := &stage{t: t, take: map[string]func(string) error{}, evidence: &evidence{
		book: b, counter: &counter{got: map[place]*arrivals{}}, members: map[string]*member{},
		rows: map[string]string{},
	}}
	for _, name := range []string{"p", "c1", "c2"} {
		s.members[name] = &member{spec: childSpec{Name: name}}
		s.take["sends "+name], s.take["ledger "+name] = b.sendLine(name), b.ledgerLine(name)
	}
	return s
}

func (s *stage) lines(of string, lines ...string) *stage {
	s.t.Helper()
	for _, l := range lines {
		if err := s.take[of](l); err != nil {
			s.t.Fatal(err)
		}
	}
	return s
}

// published is a message of route f or another, whose call ends with v at 20.
func (s *stage) published(id, route, v string) *stage {
	s.t.Helper()
	return s.lines("ledger p", fmt.Sprintf("I 10 %s %s:%s", id, route, id), fmt.Sprintf("R 20 %s %s -", id, v))
}

// sent is a send that begins at at and ends at done as kind; done 0 has no outcome.
func (s *stage) sent(proc, id string, at, done int64, kind string) *stage {
	s.t.Helper()
	number := fmt.Sprint(at)
	s.lines("sends "+proc, fmt.Sprintf("S %d %s %s", at, number, id))
	if done > 0 {
		s.lines("sends "+proc, fmt.Sprintf("D %d %s %s - ", done, number, kind))
	}
	return s
}

// again is a message that arrived twice: one send ended as kind, and another process sent
// it again.
func (s *stage) again(done int64, kind string) *stage {
	s.t.Helper()
	s.published("a", "c", "ok").arrived("a", queueClassic, 35, 65)
	return s.sent("p", "a", 30, done, kind).sent("c1", "a", 60, 70, "acked")
}

func (s *stage) arrived(id, queue string, at ...int64) *stage {
	s.counter.got[place{id, queue}] = &arrivals{plain: at}
	return s
}

// cameBack is a send that ends as returned.
func (s *stage) cameBack(proc string, at, done int64) *stage {
	s.t.Helper()
	return s.sent(proc, "a", at, done, "returned")
}

func (s *stage) storedAgain(proc string, at int64) *stage {
	s.t.Helper()
	return s.lines("sends "+proc, fmt.Sprintf("E %d %s a", at, wordRestored))
}

func (s *stage) paused(proc string, ns int64) { s.members[proc].pauses = []pause{{31, 31 + ns}} }

func (s *stage) row(id, status string) *stage { s.rows[id] = status; return s }

func TestKeptAndLost(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(*stage)
		lost int
	}{
		"delivered": {func(s *stage) { s.published("a", "c", "ok").arrived("a", queueClassic, 30) }, 0},
		"redelivered only": {func(s *stage) {
			s.published("a", "c", "ok").counter.got[place{"a", queueClassic}] = &arrivals{redelivered: 1}
		}, 0},
		"in the table":     {func(s *stage) { s.published("a", "c", "ok").row("a", "DEAD") }, 0},
		"neither":          {func(s *stage) { s.published("a", "c", "ok") }, 1},
		"one branch only":  {func(s *stage) { s.published("a", "f", "ok").arrived("a", queueFan, 30) }, 1},
		"unroutable, dead": {func(s *stage) { s.published("a", "n", "ok").row("a", "DEAD") }, 0},
		"unroutable, gone": {func(s *stage) { s.published("a", "n", "ok") }, 1},
		"ambiguous":        {func(s *stage) { s.published("a", "c", "maybe") }, 0},
		"no result":        {func(s *stage) { s.lines("ledger p", "I 10 1 c:a") }, 0},
		"not stored":       {func(s *stage) { s.published("a", "c", "no") }, 0},
		"maybe, and again, ok": {func(s *stage) {
			s.published("a", "c", "maybe").lines("ledger p", "I 21 2 c:a", "R 22 2 ok -")
		}, 1},
	} {
		s := newStage(t)
		tc.make(s)
		if a := s.weigh(); len(a.lost) != tc.lost || len(a.phantom) != 0 {
			t.Errorf("%s: lost %q, phantom %q; want %d and none", name, a.lost, a.phantom, tc.lost)
		}
	}
}

func TestPhantoms(t *testing.T) {
	for name, tc := range map[string]struct {
		verdict string // "" was never intended
		route   string
		more    func(*stage)
		want    int
	}{
		"never intended":        {"", "c", nil, 1},
		"rolled back":           {"no", "c", nil, 1},
		"in a queue of another": {"maybe", "q", nil, 1},
		"unroutable, delivered": {"maybe", "n", nil, 1},
		"ambiguous, delivered":  {"maybe", "c", nil, 0},
		"changed":               {"ok", "c", func(s *stage) { s.counter.changed = []string{"a"} }, 1},
		"stored though not":     {"ok", "c", func(s *stage) { s.published("b", "c", "no").row("b", "READY") }, 1},
		"no, then ok": {"no", "c", func(s *stage) {
			s.lines("ledger p", "I 21 2 c:a", "R 22 2 ok -")
		}, 0},
	} {
		s := newStage(t).arrived("a", queueClassic, 30)
		if tc.verdict != "" {
			s.published("a", tc.route, tc.verdict)
		}
		if tc.more != nil {
			tc.more(s)
		}
		if a := s.weigh(); len(a.phantom) != tc.want {
			t.Errorf("%s: phantom %q, want %d", name, a.phantom, tc.want)
		}
	}
}

func TestRepeatsWantACause(t *testing.T) {
	for name, tc := range map[string]struct {
		done  int64 // of the first send
		kind  string
		more  func(*stage)
		cause string // "" is unexplained
	}{
		"acked":               {40, "acked", nil, ""},
		"nacked by one queue": {40, "nacked", nil, ""},
		"nacked while acks are lost": {40, "nacked", func(s *stage) {
			s.faults = []done{{Kind: "acks-swallowed", From: 35, To: 65}}
		}, causeNack},
		"nacked, acks lost later": {40, "nacked", func(s *stage) {
			s.faults = []done{{Kind: "acks-swallowed", From: 41, To: 65}}
		}, ""},
		"acked while acks are lost": {40, "acked", func(s *stage) {
			s.faults = []done{{Kind: "acks-swallowed", From: 35, To: 65}}
		}, ""},
		"an alarm within the lease": {40, "acked", func(s *stage) {
			s.faults = []done{{Kind: "memory-alarm", From: 35, To: 65}}
		}, ""},
		"returned, yet arrived": {40, "returned", nil, ""},
		"unknown":               {40, "unknown", nil, causeUnknown},
		"no outcome":            {0, "", nil, ""},
		"no outcome, killed":    {0, "", func(s *stage) { s.members["p"].killed = 50 }, causeCrash},
		"killed before delete":  {40, "acked", func(s *stage) { s.members["p"].killed = 50 }, causeCrash},
		"killed before the ack": {40, "acked", func(s *stage) { s.members["p"].killed = 39 }, ""},
		"killed after the send": {40, "acked", func(s *stage) { s.members["p"].killed = 65 }, ""},
		"another one killed":    {40, "acked", func(s *stage) { s.members["c2"].killed = 50 }, ""},
		"database": {40, "acked", func(s *stage) {
			s.faults = []done{{Database: true, From: 35, To: 45}}
		}, causeDatabase},
		"database, earlier": {40, "acked", func(s *stage) {
			s.faults = []done{{Database: true, From: 5, To: 39}}
		}, ""},
		"stored again": {40, "acked", func(s *stage) {
			s.cameBack("c2", 15, 18).storedAgain("c2", 50).faults = []done{{Database: true, From: 5, To: 39}}
		}, causeRestored},
		"stored again by another": {40, "acked", func(s *stage) {
			s.cameBack("c2", 15, 18).storedAgain("c1", 50).faults = []done{{Database: true, From: 5, To: 39}}
		}, ""},
		"stored again without a fault": {40, "acked", func(s *stage) {
			s.cameBack("c2", 15, 18).storedAgain("c2", 50)
		}, ""},
		"stored again before the ack": {40, "acked", func(s *stage) {
			s.cameBack("c2", 15, 18).storedAgain("c2", 39).faults = []done{{Database: true, From: 5, To: 39}}
		}, ""},
		"a fault of another":  {40, "acked", func(s *stage) { s.faults = []done{{From: 35, To: 45}} }, ""},
		"paused":              {40, "acked", func(s *stage) { s.paused("p", leaseWorth) }, causePause},
		"paused for a moment": {40, "acked", func(s *stage) { s.paused("p", 1) }, ""},
		"another one paused":  {40, "acked", func(s *stage) { s.paused("c2", leaseWorth) }, ""},
		"published again":     {40, "acked", func(s *stage) { s.lines("ledger p", "I 50 9 c:a") }, causeAgain},
		"published again, long": {40, "acked", func(s *stage) {
			s.lines("ledger p", "I 25 9 c:a", "R 50 9 ok -")
		}, causeAgain},
		"published again, before": {40, "acked", func(s *stage) {
			s.lines("ledger p", "I 25 9 c:a", "R 29 9 ok -")
		}, ""},
		"published again, later": {40, "acked", func(s *stage) { s.lines("ledger p", "I 80 9 c:a") }, ""},
	} {
		s := newStage(t).again(tc.done, tc.kind)
		if tc.more != nil {
			tc.more(s)
		}
		a, want, unexplained := s.weigh(), map[string]int{}, 1
		if tc.cause != "" {
			want[tc.cause], unexplained = 1, 0
		}
		if len(a.unexplained) != unexplained || !maps.Equal(a.causes, want) {
			t.Errorf("%s: unexplained %q, causes %v; want %q", name, a.unexplained, a.causes, tc.cause)
		}
	}
}

// A message that was sent once and arrived twice is the broker's repeat, if the consumer
// gave it reason for one.
func TestRepeatsOfTheBroker(t *testing.T) {
	for dialled, unexplained := range map[int64]int{50: 0, 5: 1} {
		s := newStage(t).published("a", "c", "ok").arrived("a", queueClassic, 35, 65).sent("p", "a", 30, 40, "acked")
		s.counter.dials = []int64{dialled}
		if a := s.weigh(); len(a.unexplained) != unexplained || a.redelivered != 1-unexplained {
			t.Errorf("consumer dialled at %d: %+v", dialled, a)
		}
	}
}

// An alarm that outlasts the lease lets another process send.
func TestAlarmPastTheLeaseExplains(t *testing.T) {
	for alarm, want := range map[string]int{"memory-alarm": 1, "link-delay": 0} {
		lease := int64(claimLease)
		s := newStage(t).published("a", "c", "ok").arrived("a", queueClassic, lease, lease+1)
		s.sent("p", "a", 30, lease+50, "acked").sent("c1", "a", lease+60, lease+70, "acked")
		s.faults = []done{{Kind: alarm, From: 20, To: lease + 40}}
		if a := s.weigh(); a.causes[causeBlocked] != want || len(a.unexplained) != 1-want {
			t.Errorf("%s: %+v", alarm, a)
		}
	}
}

// A nacked send is no cause of a repeat that the others account for, and explains none.
func TestNackedSendsCountLast(t *testing.T) {
	for arrivals, want := range map[int]account{2: {repeats: 1}, 3: {repeats: 2}} {
		s := newStage(t).published("a", "c", "ok").arrived("a", queueClassic, []int64{35, 48, 65}[3-arrivals:]...)
		s.sent("p", "a", 30, 40, "nacked").sent("c1", "a", 45, 50, "unknown").sent("c2", "a", 60, 70, "acked")
		a := s.weigh()
		if a.repeats != want.repeats || a.causes[causeUnknown] != 1 || len(a.unexplained) != arrivals-2 {
			t.Errorf("%d arrivals: %+v", arrivals, a)
		}
	}
}

func TestNackOfAFanOutExplains(t *testing.T) {
	s := newStage(t)
	s.published("a", "f", "ok").arrived("a", queueFan, 35, 65).arrived("a", queueSmall, 66)
	s.sent("p", "a", 30, 40, "nacked").sent("c1", "a", 60, 70, "acked")
	if a := s.weigh(); a.causes[causeNack] != 1 || a.repeats != 1 || len(a.unexplained)+len(a.lost) != 0 {
		t.Errorf("got %+v", a)
	}
}

func TestLongestGapLeavesFaultsOut(t *testing.T) {
	const ms = 1e6
	times := []int64{10 * ms, 20 * ms, 120 * ms, 130 * ms}
	faults := []done{{From: 30 * ms, To: 110 * ms}}
	if got := longestGap(times, faults, 0, 140*ms); got != 20*ms {
		t.Errorf("longest gap %d ms, want 20", got/ms)
	}
	if got := longestGap(times, nil, 0, 140*ms); got != 100*ms {
		t.Errorf("longest gap without faults %d ms, want 100", got/ms)
	}
}

func TestSlowRecoveryFails(t *testing.T) {
	broker, redis := done{Kind: "broker-kill"}, done{Kind: "redis-stop"}
	stall, database := done{Kind: "link-stall", Silent: true}, done{Kind: "database-stop", Database: true}
	for _, tt := range []struct {
		fault done
		now   recovery
		want  string // "": within its bound
	}{
		{broker, recovery{5000, 5000, 5000}, ""},
		{broker, recovery{5001, 0, 0}, "after broker-kill publishing went on after 5001 ms, want at most 5000"},
		{redis, recovery{0, 0, 6000}, "after redis-stop compensating went on after 6000 ms"},
		{stall, recovery{20000, 20000, 20000}, ""},
		{stall, recovery{0, 20001, 0}, "delivering went on after 20001 ms, want at most 20000"},
		{database, recovery{2000, 2000, 5000}, ""},
		{database, recovery{2001, 0, 0}, "publishing went on after 2001 ms, want at most 2000"},
	} {
		s := summary{Pass: true}
		s.checkRecovery(tt.fault, tt.now)
		if got := strings.Join(s.Breaches, "; "); s.Pass != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s %+v: pass %t, %q, want %q", tt.fault.Kind, tt.now, s.Pass, got, tt.want)
		}
	}
}

// What never goes on took until the end.
func TestRecoveryCountsUntilTheEnd(t *testing.T) {
	const ms = 1e6
	faults := []done{{From: 0, To: 10 * ms}, {From: 30 * ms, To: 50 * ms}}
	for want, times := range map[int64][]int64{2: {5 * ms, 12 * ms}, 30: {5 * ms, 60 * ms}, 70: {5 * ms}} {
		if got := sinceFault(times, faults, 10*ms, 100*ms); got != want {
			t.Errorf("%v: %d ms, want %d", times, got, want)
		}
	}
}

// One publisher that does not go on is not hidden by the others.
func TestEveryPublisherGoesOn(t *testing.T) {
	const ms = 1e6
	d := done{From: 0, To: 10 * ms}
	quick := &callTimes{first: 1, oks: []int64{11 * ms, 90 * ms}}
	for _, tt := range []struct {
		name string
		p    *callTimes
		want int64
	}{
		{"stuck", &callTimes{first: 1, oks: []int64{5 * ms}}, 90},
		{"slow", &callTimes{first: 1, oks: []int64{5 * ms, 50 * ms}}, 40},
		{"ended", &callTimes{first: 1, oks: []int64{5 * ms}}, 1},
		{"started later", &callTimes{first: 20 * ms, oks: []int64{50 * ms}}, 1},
	} {
		r := &run{faults: []done{d}, end: 100 * ms, there: []string{"quick", "stuck", "slow", "started later"}}
		if got := r.slowest(map[string]*callTimes{"quick": quick, tt.name: tt.p}, d); got != tt.want {
			t.Errorf("%s: %d ms, want %d", tt.name, got, tt.want)
		}
	}
}

func TestAFaultThatDidNotBiteFails(t *testing.T) {
	s := summary{Pass: true, FaultKinds: map[string]int{}, Bites: map[string]int{}}
	s.addFaults([]done{{Kind: "link-cut", Proof: proof{3, "cut"}}})
	if !s.Pass || s.Bites["link-cut"] != 3 {
		t.Errorf("a fault that bit: %+v", s)
	}
	if s.addFaults([]done{{Kind: "link-cut"}}); s.Pass || s.Faults != 2 {
		t.Errorf("a fault that did not: %+v", s)
	}
}

func TestGrowthFails(t *testing.T) {
	flat := make([]sample, 30)
	for i := range flat {
		flat[i] = sample{Seconds: float64(5 * i), MemoryMB: 50, Goroutines: 40, Rows: 3}
	}
	for name, grow := range map[string]func(*sample){
		"memory":     func(s *sample) { s.MemoryMB = 90 },
		"goroutines": func(s *sample) { s.Goroutines = 80 },
		"rows":       func(s *sample) { s.Rows = 1000 },
		"":           func(s *sample) { s.P99 = 100 },
	} {
		grown := slices.Clone(flat)
		for i := range grown[20:] {
			grow(&grown[20+i])
		}
		s := summary{Pass: true}
		if err := s.addSamples(filepath.Join(t.TempDir(), "soak"), grown); err != nil || s.Pass != (name == "") {
			t.Errorf("%s: pass %t, %q, %v", name, s.Pass, s.Breaches, err)
		}
	}
}
