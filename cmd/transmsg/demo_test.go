package main

import (
	"encoding/json"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	url := amqptest.VHost(t)
	code, out, story := runIn(t, "demo", "--json", "--messages", "200", "--seed", "7", "--amqp", url)
	if code != 0 {
		t.Fatalf("exit %d:\n%s", code, story)
	}
	var res demoResult
	if err := json.Unmarshal([]byte(out), &res); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	if got, want := res.Published, 200-res.RolledBack+demoUnbound+demoDead; got != want {
		t.Errorf("published %d, want %d", got, want)
	}
	if res.Lost != 0 || res.Delivered != res.Published-demoDead || res.Dead != demoDead || res.RolledBack == 0 {
		t.Errorf("got %+v", res)
	}
	for _, want := range []string{" 312 ", "ALERT  DEAD", "and 97 more", "\nlost 0\n"} {
		if !strings.Contains(story, want) {
			t.Errorf("the story does not tell %q:\n%s", want, story)
		}
	}
	// Nothing is left: a passive declare of what the story names fails.
	_, rest, _ := strings.Cut(story, "exchange and queue ")
	name, _, _ := strings.Cut(rest, "\n")
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclarePassive(name, true, false, false, false, nil); err == nil || name == "" {
		t.Errorf("queue %q is still there", name)
	}
}

// The demo's verdict sees each way in which the promise can be broken.
func TestDemoJudge(t *testing.T) {
	t.Parallel()
	good := func() *demoFacts {
		f := &demoFacts{
			published: map[string]bool{"a": true}, rolledBack: map[string]bool{"r": true}, unbound: map[string]bool{},
			dead: map[string]bool{}, received: map[string]int{"a": 2}, alerts: demoDead, orders: 3, transacted: 3,
			unknown: 1,
		}
		for i := range demoUnbound {
			id := "u" + string(rune('0'+i))
			f.unbound[id], f.published[id], f.received[id] = true, true, 1
		}
		for i := range demoDead {
			id := "d" + string(rune('0'+i))
			f.dead[id], f.published[id] = true, true
		}
		return f
	}
	tests := []struct {
		name    string
		broken  func(*demoFacts)
		problem string
	}{
		{"as promised", func(*demoFacts) {}, ""},
		{"lost", func(f *demoFacts) { delete(f.received, "a") }, "1 messages are lost"},
		{"rolled back and sent", func(f *demoFacts) { f.received["r"] = 1 }, "1 messages of rolled back transactions"},
		{"a stranger", func(f *demoFacts) { f.received["x"] = 1 }, "1 messages arrived that nobody published"},
		{"business row missing", func(f *demoFacts) { f.orders-- }, "2 business rows for 3 committed"},
		{"rows left", func(f *demoFacts) { f.ready = 1 }, "1 rows are still READY"},
		{"returned and not delivered", func(f *demoFacts) { delete(f.unbound, "u0") }, "99 of 100 returned"},
		{"not DEAD", func(f *demoFacts) { delete(f.dead, "d0") }, "4 DEAD and 5 alerts, want 5"},
		{"no alert", func(f *demoFacts) { f.alerts-- }, "5 DEAD and 4 alerts, want 5"},
		{"no cut", func(f *demoFacts) { f.unknown = 0 }, "the cut hit no send"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := good()
			tt.broken(f)
			res := f.judge()
			got := strings.Join(res.Problems, "; ")
			if (tt.problem == "" && got != "") || !strings.Contains(got, tt.problem) {
				t.Errorf("got %q, want %q", got, tt.problem)
			}
			if tt.problem == "" && (res.Repeats != 1 || res.Lost != 0 || res.Delivered != 1+demoUnbound) {
				t.Errorf("got %+v", res)
			}
		})
	}
}
