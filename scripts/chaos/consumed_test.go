package main

import (
	"fmt"
	"slices"
	"testing"
)

// called is one handler call of a consumer, from at to done (0: it has no end).
type called struct {
	proc, id    string
	attempt     int
	how         string
	at, done    int64
	answer      string
	consumerEnd int64 // a kill of the process then, 0 for none
}

// What consumers did is weighed: one effect, and a cause for each delivery beyond the first.
func TestConsumedVerdict(t *testing.T) {
	first := called{proc: "k1", id: "a", attempt: 1, how: wordFresh, at: 10, done: 20, answer: "done"}
	failed, retried := first, first
	failed.answer = "failed"
	retried.attempt, retried.at, retried.done = 2, 40, 50
	twice := retried
	twice.at, twice.done, twice.answer = 60, 70, "skipped"
	killed, after := first, first
	killed.done, killed.consumerEnd = 0, 25
	after.proc, after.how, after.at, after.done = "k2", wordRedelivered, 30, 35
	unkilled := killed
	unkilled.consumerEnd = 0
	busy, again := first, first
	busy.answer = "busy"
	again.at, again.done = 30, 40
	copied := failed
	copied.consumerEnd = 55
	for _, tt := range []struct {
		name         string
		calls        []called
		effects      int
		wrong, extra int
		plain        int
		causes       string
	}{
		{"one call", []called{first}, 1, 0, 0, 1, "map[]"},
		{"no effect", []called{first}, 0, 1, 0, 1, "map[]"},
		{"two effects", []called{first}, 2, 1, 0, 1, "map[]"},
		{"a failure and its copy", []called{failed, retried}, 1, 0, 0, 1, "map[]"},
		{"two copies of one failure", []called{failed, retried, twice}, 1, 0, 1, 1, "map[]"},
		{"two copies, the consumer was killed", []called{copied, retried, twice}, 1, 0, 0, 1, "map[copied-twice:1]"},
		{"a copy without a failure", []called{first, retried}, 1, 0, 1, 1, "map[]"},
		{"a kill and the redelivery", []called{killed, after}, 1, 0, 0, 1, "map[redelivery:1]"},
		{"a redelivery after nothing", []called{unkilled, after}, 1, 0, 1, 1, "map[]"},
		{"busy, and the same delivery again", []called{busy, again}, 1, 0, 0, 1, "map[]"},
		{"handled twice without a reason", []called{first, again}, 1, 0, 0, 2, "map[]"}, // weighed with the sends
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			for _, name := range []string{"k1", "k2"} {
				s.members[name] = &member{role: roleConsumer, spec: childSpec{Name: name}}
			}
			take := map[string]func(string) error{
				"k1": s.book.handled.line("k1"), "k2": s.book.handled.line("k2"),
			}
			for i, c := range tt.calls {
				lines := []string{fmt.Sprintf("B %d %d %s %d %s", c.at, i, c.id, c.attempt, c.how)}
				if c.done > 0 {
					lines = append(lines, fmt.Sprintf("E %d %d %s", c.done, i, c.answer))
				}
				for _, l := range lines {
					if err := take[c.proc](l); err != nil {
						t.Fatal(err)
					}
				}
				if c.consumerEnd > 0 {
					s.members[c.proc].killed = c.consumerEnd
				}
			}
			effects := map[string]int{"a": tt.effects}
			if tt.effects == 0 {
				effects = nil
			}
			got := s.consumed(effects)
			if len(got.wrong) != tt.wrong || len(got.unexplained) != tt.extra || fmt.Sprint(got.Copies) != tt.causes {
				t.Errorf("wrong %q, unexplained %q, copies %v", got.wrong, got.unexplained, got.Copies)
			}
			if n := len(s.counter.got[place{"a", queueQuorum}].plain); n != tt.plain {
				t.Errorf("%d arrivals, want %d", n, tt.plain)
			}
		})
	}
	s := newStage(t)
	if got := s.consumed(map[string]int{"ghost": 1}); len(got.wrong) != 1 {
		t.Errorf("an effect of nothing: %q", got.wrong)
	}
}

// The kinds of consumers come with --consumers alone, so that a seed's plan without it stays the same.
func TestConsumerKindsAreAskedFor(t *testing.T) {
	has := func(o options) bool {
		return slices.ContainsFunc(kindsFor(o), func(k kind) bool { return k.name == "consumer-kill" })
	}
	if has(options{store: storeMySQL}) || !has(options{store: storeMySQL, consumers: true}) {
		t.Error("consumer-kill is dealt without --consumers, or not with it")
	}
	for _, args := range [][]string{{"--consumers", "--store", "sqlite"}, {"--consumers", "--galera"}} {
		if _, err := parse(args, t.Output()); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}
