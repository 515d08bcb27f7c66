package demo

import (
	"log/slog"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/amqptest"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	url := amqptest.VHost(t)
	broker, err := confirms.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	broker.DialTimeout = confirms.DefaultDialTimeout
	var out strings.Builder
	res, err := Run(t.Context(), Config{
		Broker: broker, Messages: 200, Seed: 7, Out: &out, Logger: slog.New(slog.DiscardHandler),
	})
	story := out.String()
	if err != nil {
		t.Fatalf("%v:\n%s", err, story)
	}
	if got, want := res.Published, 200-res.RolledBack+unboundMessages+deadMessages; got != want {
		t.Errorf("published %d, want %d", got, want)
	}
	if res.Lost != 0 || res.Delivered != res.Published-deadMessages || res.Dead != deadMessages || res.RolledBack == 0 {
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
	good := func() *facts {
		f := &facts{
			published: map[string]bool{"a": true}, rolledBack: map[string]bool{"r": true}, unbound: map[string]bool{},
			dead: map[string]bool{}, received: map[string]int{"a": 2}, alerts: deadMessages, orders: 3, transacted: 3,
			unknown: 1,
		}
		for i := range unboundMessages {
			id := "u" + string(rune('0'+i))
			f.unbound[id], f.published[id], f.received[id] = true, true, 1
		}
		for i := range deadMessages {
			id := "d" + string(rune('0'+i))
			f.dead[id], f.published[id] = true, true
		}
		return f
	}
	tests := []struct {
		name    string
		broken  func(*facts)
		problem string
	}{
		{"as promised", func(*facts) {}, ""},
		{"lost", func(f *facts) { delete(f.received, "a") }, "1 messages are lost"},
		{"rolled back and sent", func(f *facts) { f.received["r"] = 1 }, "1 messages of rolled back transactions"},
		{"a stranger", func(f *facts) { f.received["x"] = 1 }, "1 messages arrived that nobody published"},
		{"business row missing", func(f *facts) { f.orders-- }, "2 business rows for 3 committed"},
		{"rows left", func(f *facts) { f.ready = 1 }, "1 rows are still READY"},
		{"returned and not delivered", func(f *facts) { delete(f.unbound, "u0") }, "99 of 100 returned"},
		{"not DEAD", func(f *facts) { delete(f.dead, "d0") }, "4 DEAD and 5 alerts, want 5"},
		{"no alert", func(f *facts) { f.alerts-- }, "5 DEAD and 4 alerts, want 5"},
		{"no cut", func(f *facts) { f.unknown = 0 }, "the cut hit no send"},
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
			if tt.problem == "" && (res.Repeats != 1 || res.Lost != 0 || res.Delivered != 1+unboundMessages) {
				t.Errorf("got %+v", res)
			}
		})
	}
}
