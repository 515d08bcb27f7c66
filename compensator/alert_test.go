package compensator_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
)

func contextDone(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx, cancel
}

// lockedBuffer is a log that goroutines may write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) lines(part string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, part) {
			out = append(out, line)
		}
	}
	return out
}

// C66: the last attempt makes the row DEAD and raises one alert with what a person needs.
func TestC66_DeadRaisesOneAlert(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender, alerts, log := newStore(), newSender(), &collector{}, &lockedBuffer{}
		sender.script = returned
		id := store.put(t, 1, "orders", func(r *model.TransMessage) { r.MessageKey = "order-7" })[0]
		r := start(t, compensator.Config{
			Store: store, Sender: sender, Alerter: alerts, Owner: "one",
			Policy: model.Policy{MaxAttempts: 2}, Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		time.Sleep(time.Minute)
		r.drained(t)
		want := compensator.Alert{
			Status: model.Dead, Service: "orders", Exchange: "ex", RoutingKey: "k",
			Code: model.CodeNoRoute, Text: "NO_ROUTE", ID: id, Key: "order-7", Attempts: 2, Instance: "one",
			Command: "transmsg messages show " + id,
		}
		if got := alerts.got(); len(got) != 1 || got[0] != want {
			t.Errorf("alerts %+v, want one %+v", got, want)
		}
		if row, _ := store.row(id); row.Status != model.Dead || sender.times(id) != 2 {
			t.Errorf("row %+v after %d sends, want DEAD after 2", row, sender.times(id))
		}
		lines := log.lines(`msg="send failed"`)
		if len(lines) != 2 {
			t.Fatalf("%d lines for failed sends, want 2: %q", len(lines), lines)
		}
		for _, part := range []string{
			"id=" + id, "key=order-7", "service=orders", "exchange=ex", "routing_key=k",
			"outcome=returned", "code=312", "attempt=2", "instance=one", "status=DEAD",
		} {
			if !strings.Contains(lines[1], part) {
				t.Errorf("line %q lacks %s", lines[1], part)
			}
		}
	})
}

// C69: an alerter that hangs, and a queue that overflows because of it, slow nothing; no
// alert is lost without a line in the log.
func TestC69_HangingAlerterSlowsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const dead, good = 1500, 500
		store, sender, log := newStore(), newSender(), &lockedBuffer{}
		alerts := &collector{block: true}
		sender.script = func(s confirms.Send) model.Outcome {
			if s.Message.RoutingKey == "nope" {
				return returned(s)
			}
			return model.Outcome{Kind: model.Acked}
		}
		store.put(t, dead, "orders", func(r *model.TransMessage) { r.RoutingKey = "nope" })
		ids := store.put(t, good, "orders", nil)
		delivered, logged := 0, 0
		var mu sync.Mutex
		r := start(t, compensator.Config{
			Store: store, Sender: sender, Alerter: alerts,
			Policy: model.Policy{MaxAttempts: 1}, Logger: slog.New(slog.NewTextHandler(log, nil)),
			Observer: compensator.Observer{Alert: func(_ compensator.Alert, ok bool) {
				mu.Lock()
				defer mu.Unlock()
				if ok {
					delivered++
				} else {
					logged++
				}
			}},
		})
		time.Sleep(time.Second)
		synctest.Wait()
		once(t, sender, ids)
		if store.left() != dead || len(store.dead) != dead {
			t.Errorf("after a second: %d rows left, %d DEAD; want %d of both", store.left(), len(store.dead), dead)
		}
		r.drained(t)
		if delivered != 0 || logged != dead || len(log.lines("alert not delivered")) != dead {
			t.Errorf("%d alerts delivered, %d told as logged, %d lines; want 0, %d, %d",
				delivered, logged, len(log.lines("alert not delivered")), dead, dead)
		}
	})
}

func TestAlerterErrorsAndPanicsAreLogged(t *testing.T) {
	t.Parallel()
	for name, alerter := range map[string]compensator.Alerter{
		"error": &collector{err: errors.New("sink says no")},
		"panic": alerterFunc(func(context.Context, compensator.Alert) error { panic("sink says no") }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, sender, log := newStore(), newSender(), &lockedBuffer{}
				sender.script = returned
				store.put(t, 2, "orders", nil)
				r := start(t, compensator.Config{
					Store: store, Sender: sender, Alerter: alerter,
					Policy: model.Policy{MaxAttempts: 1}, Logger: slog.New(slog.NewTextHandler(log, nil)),
				})
				time.Sleep(time.Second)
				r.drained(t)
				if lines := log.lines("sink says no"); len(lines) != 2 {
					t.Errorf("lines %q, want one for each alert", lines)
				}
			})
		})
	}
}

type alerterFunc func(context.Context, compensator.Alert) error

func (f alerterFunc) Alert(ctx context.Context, a compensator.Alert) error { return f(ctx, a) }

// Without an Alerter an alert is a line of the log at level error.
func TestLogAlerterIsTheDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender, log := newStore(), newSender(), &lockedBuffer{}
		id := store.put(t, 1, "orders", func(r *model.TransMessage) { r.Properties = []byte("{") })[0]
		r := start(t, compensator.Config{
			Store: store, Sender: sender,
			Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		time.Sleep(time.Second)
		r.drained(t)
		lines := log.lines("level=ERROR")
		if len(lines) != 1 || !strings.Contains(lines[0], id) || !strings.Contains(lines[0], "messages show") {
			t.Errorf("error lines %q, want one that names %s and the command", lines, id)
		}
	})
}
