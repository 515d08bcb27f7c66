package compensator_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/logtest"
	"github.com/transmsg/transmsg/model"
)

func contextDone(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx, cancel
}

// collector is an Alerter that keeps what it is told, and hangs, fails or panics on
// demand.
type collector struct {
	mu     sync.Mutex
	alerts []compensator.Alert
	at     []time.Time
	calls  int
	mode   string // "", "hang", "fail", "panic"
	refuse func(compensator.Alert) bool
}

var errSink = errors.New("sink says no")

func (c *collector) Alert(ctx context.Context, a compensator.Alert) error {
	c.mu.Lock()
	c.calls++
	mode := c.mode
	c.mu.Unlock()
	switch mode {
	case "hang":
		<-ctx.Done()
		return ctx.Err()
	case "fail":
		return errSink
	case "panic":
		panic(errSink.Error())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse != nil && c.refuse(a) {
		return errSink
	}
	c.alerts, c.at = append(c.alerts, a), append(c.at, time.Now())
	return nil
}

func (c *collector) set(mode string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mode = mode
}

func (c *collector) got() []compensator.Alert {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.alerts)
}

// counts sums up what was told of DEAD rows, by routing key, and checks that no window
// has two alerts of a group.
func (c *collector) counts(t *testing.T, window time.Duration) map[string]int {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	rows, last := map[string]int{}, map[string]time.Time{}
	for i, a := range c.alerts {
		if a.Kind != model.AlertDead {
			continue
		}
		if before, ok := last[a.RoutingKey]; ok && c.at[i].Sub(before) < window {
			t.Errorf("two alerts of %q within %v", a.RoutingKey, c.at[i].Sub(before))
		}
		rows[a.RoutingKey] += a.Count
		last[a.RoutingKey] = c.at[i]
	}
	return rows
}

// C66: the last attempt makes the row DEAD and raises one alert with what a person needs.
func TestC66_DeadRaisesOneAlert(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender, alerts, log := newStore(), newSender(), &collector{}, &logtest.Buffer{}
		sender.script = returned
		id := store.put(t, 1, "orders", func(r *model.TransMessage) {
			r.MessageKey, r.Payload = "order-7", []byte("SECRETBODY")
		})[0]
		r := start(t, compensator.Config{
			Store: store, Sender: sender, Alerter: alerts, Instance: "one",
			Policy:      model.Policy{MaxAttempts: 2, MinDeadAge: model.None},
			Logger:      slog.New(slog.NewTextHandler(log, nil)),
			Environment: "test", OperatorConfig: "/etc/the file.yaml",
		})
		time.Sleep(10 * time.Minute)
		r.drained(t)
		got := alerts.got()
		if len(got) != 1 {
			t.Fatalf("%d alerts in ten minutes, want 1: %+v", len(got), got)
		}
		row, _ := store.row(id)
		died := time.UnixMilli(row.UpdatedAt)
		want := compensator.Alert{
			Kind: model.AlertDead, Service: "orders", Exchange: "ex", RoutingKey: "k",
			Code: model.CodeNoRoute, Text: "NO_ROUTE", Count: 1, First: died, Last: died, Instance: "one",
			Sample:      model.AlertSample{ID: id, Key: "order-7", Attempts: 2},
			Environment: "test", Meaning: "no queue is bound for this routing key", Total: 1, Oldest: died,
			Command: "transmsg messages list --status DEAD --service orders --exchange ex --routing-key k --code 312" +
				" --config '/etc/the file.yaml'",
			Resend: "transmsg messages replay --service orders --exchange ex --routing-key k --code 312" +
				" --config '/etc/the file.yaml'",
		}
		if got[0] != want {
			t.Errorf("got  %+v\nwant %+v", got[0], want)
		}
		if after := alerts.at[0].Sub(died); after > 1100*time.Millisecond {
			t.Errorf("the first alert of a group came %v after the death, want at once", after)
		}
		if row.Status != model.Dead || sender.times(id) != 2 {
			t.Errorf("row %+v after %d sends, want DEAD after 2", row, sender.times(id))
		}
		lines := append(log.Lines(`msg="send failed"`), log.Lines(`msg="message is DEAD"`)...)
		if len(lines) != 2 || len(log.Lines("SECRETBODY")) != 0 {
			t.Fatalf("%d lines for failed sends, want 2 without the body: %q", len(lines), lines)
		}
		if strings.Contains(lines[1], "retry_in") || !strings.Contains(lines[0], "retry_in=") {
			t.Errorf("lines %q, want retry_in for the row that is tried again alone", lines)
		}
		for _, part := range []string{
			"id=" + id, "key=order-7", "service=orders", "exchange=ex", "routing_key=k",
			"outcome=returned", "code=312", "attempts=2", "instance=one", "status=DEAD",
		} {
			if !strings.Contains(lines[1], part) {
				t.Errorf("line %q lacks %s", lines[1], part)
			}
		}
	})
}

// unbound sends rows with a routing key beginning with "nope" back.
func unbound(s confirms.Send) model.Outcome {
	if strings.HasPrefix(s.Message.RoutingKey, "nope") {
		return returned(s)
	}
	return model.Outcome{Kind: model.Acked}
}

// putDead stores rows that die at their first send, in three groups.
func putDead(t *testing.T, store *fakeStore, n int) {
	t.Helper()
	for _, key := range []string{"nope.a", "nope.b", "nope.c"} {
		store.put(t, n, "orders", func(r *model.TransMessage) { r.RoutingKey = key })
	}
}

// C69: a sink that hangs, fails or panics slows nothing. What was owed meanwhile is told
// afterwards: one alert per group, with all its rows.
func TestC69_BrokenSinkSlowsAndLosesNothing(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"hang", "fail", "panic"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, sender, alerts := newStore(), newSender(), &collector{mode: mode}
				sender.script = unbound
				putDead(t, store, 400)
				good := store.put(t, 500, "orders", nil)
				failed := 0
				r := start(t, compensator.Config{
					Store: store, Sender: sender, Alerter: alerts,
					Policy: model.Policy{MaxAttempts: 1, MinDeadAge: model.None},
					Observers: []compensator.Observer{{Alert: func(_ compensator.Alert, ok bool) {
						if !ok {
							failed++
						}
					}}},
				})
				synctest.Wait() // no time passes: no row waits for a sink
				once(t, sender, good)
				if store.left() != 1200 || len(store.dead) != 1200 {
					t.Errorf("%d rows left, %d DEAD; want 1200 of both", store.left(), len(store.dead))
				}
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if len(alerts.got()) != 0 || failed < 8 || failed > 25 {
					t.Errorf("%d alerts, %d failures in ten minutes; want none and about one a minute",
						len(alerts.got()), failed)
				}
				later := store.put(t, 500, "orders", nil)
				time.Sleep(time.Second)
				synctest.Wait()
				once(t, sender, later)

				alerts.set("")
				time.Sleep(2 * time.Minute)
				r.drained(t)
				if n := len(alerts.got()); n != 3 {
					t.Errorf("%d alerts after the sink came back, want one for each of 3 groups", n)
				}
				for key, n := range alerts.counts(t, compensator.DefaultAlertWindow) {
					if n != 400 {
						t.Errorf("%s: told of %d rows, want 400", key, n)
					}
				}
			})
		})
	}
}

// C69: an Alerter that does not even return at the end of its context holds nobody up, is
// not called again meanwhile, and does not keep Run from ending.
func TestC69_AlerterThatNeverReturns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		sender.script = unbound
		putDead(t, store, 10)
		release := make(chan struct{})
		var calls atomic.Int32
		r := start(t, compensator.Config{
			Store: store, Sender: sender, Policy: model.Policy{MaxAttempts: 1, MinDeadAge: model.None},
			Alerter: alerterFunc(func(context.Context, compensator.Alert) error {
				calls.Add(1)
				<-release
				return nil
			}),
		})
		time.Sleep(5 * time.Minute)
		good := store.put(t, 10, "orders", nil)
		time.Sleep(time.Second)
		r.drained(t)
		once(t, sender, good)
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls at a time, want 1", n)
		}
		close(release)
	})
}

// C69: rows that die one after the other are gathered: one alert at once, then one per
// window, and every row is told exactly once.
func TestC69_WindowsGather(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender, alerts := newStore(), newSender(), &collector{}
		sender.script = unbound
		r := start(t, compensator.Config{
			Store: store, Sender: sender, Alerter: alerts, Policy: model.Policy{MaxAttempts: 1, MinDeadAge: model.None},
		})
		for range 100 {
			putDead(t, store, 3)
			time.Sleep(3 * time.Second)
		}
		time.Sleep(2 * time.Minute)
		r.drained(t)
		for key, n := range alerts.counts(t, compensator.DefaultAlertWindow) {
			if n != 300 {
				t.Errorf("%s: told of %d rows, want 300", key, n)
			}
		}
		if n := len(alerts.got()); n < 3*6 || n > 3*7 {
			t.Errorf("%d alerts of 3 groups in 5 minutes, want 18 to 21", n)
		}
	})
}

// C69: the process ends in any way between death and alert: another one raises it.
func TestC69_AlertsSurviveTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		sender.script = unbound
		putDead(t, store, 10)
		for _, row := range store.rows { // dead, told to nobody
			row.Status, row.LastCode = model.Dead, model.CodeNoRoute
			store.rows[row.ID] = row
		}
		// One that was killed after its claim.
		if rows, err := store.ClaimDead(t.Context(), model.DeadClaim{
			Instance: "killed", Lease: 30 * time.Second, MaxRows: 17,
		}); err != nil || len(rows) != 17 {
			t.Fatal(len(rows), err)
		}
		// The last one hangs in the sink and is stopped.
		hanging := &collector{mode: "hang"}
		r := start(t, compensator.Config{Store: store, Sender: sender, Alerter: hanging})
		time.Sleep(2 * time.Second)
		r.drained(t)
		hanging.mu.Lock() // a call that hung may end after the run
		if hanging.calls == 0 {
			t.Error("the sink was not called")
		}
		hanging.mu.Unlock()
		alerts := &collector{}
		r = start(t, compensator.Config{Store: store, Sender: sender, Alerter: alerts})
		time.Sleep(3 * time.Minute)
		r.drained(t)
		got := alerts.counts(t, compensator.DefaultAlertWindow)
		if len(got) != 3 || got["nope.a"] != 10 || got["nope.b"] != 10 || got["nope.c"] != 10 {
			t.Errorf("told of %v, want 10 rows of each group", got)
		}
	})
}

// One alert that the sink never takes does not hold up the others.
func TestC69_OneRefusedAlertHoldsNoOtherUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		sender.script = unbound
		alerts := &collector{refuse: func(a compensator.Alert) bool { return a.RoutingKey == "nope.a" }}
		putDead(t, store, 5)
		r := start(t, compensator.Config{
			Store: store, Sender: sender, Alerter: alerts, Policy: model.Policy{MaxAttempts: 1, MinDeadAge: model.None},
		})
		time.Sleep(time.Minute)
		r.drained(t)
		got := alerts.counts(t, time.Minute)
		if len(got) != 2 || got["nope.b"] != 5 || got["nope.c"] != 5 {
			t.Errorf("told of %v, want 5 rows of nope.b and nope.c", got)
		}
	})
}

// A database that is down costs no alert either.
func TestC69_DatabaseDownLosesNoAlert(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender, alerts := newStore(), newSender(), &collector{}
		sender.script = unbound
		putDead(t, store, 5)
		r := start(t, compensator.Config{
			Store: store, Sender: sender, Alerter: alerts, Policy: model.Policy{MaxAttempts: 1, MinDeadAge: model.None},
		})
		synctest.Wait()
		store.setErr(errDatabase)
		time.Sleep(5 * time.Minute)
		store.setErr(nil)
		time.Sleep(2 * time.Minute)
		r.drained(t)
		if got := alerts.counts(t, time.Minute); len(got) != 3 || got["nope.a"] != 5 {
			t.Errorf("told of %v, want 5 rows of each group", got)
		}
	})
}

// Replicas that share a lock raise one alert per group and window together.
func TestC69_ReplicasWithALockAlertOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender, alerts, locker := newStore(), newSender(), &collector{}, &compensator.LocalLocker{}
		sender.script = unbound
		var replicas []*running
		for range 3 {
			replicas = append(replicas, start(t, compensator.Config{
				Store: store, Sender: sender, Alerter: alerts, Locker: locker,
				Policy: model.Policy{MaxAttempts: 1, MinDeadAge: model.None},
			}))
			time.Sleep(300 * time.Millisecond)
		}
		for range 50 {
			putDead(t, store, 1)
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Minute)
		for _, r := range replicas {
			r.drained(t)
		}
		for key, n := range alerts.counts(t, compensator.DefaultAlertWindow) {
			if n != 50 {
				t.Errorf("%s: told of %d rows, want 50", key, n)
			}
		}
	})
}

type alerterFunc func(context.Context, compensator.Alert) error

func (f alerterFunc) Alert(ctx context.Context, a compensator.Alert) error { return f(ctx, a) }

// Without an Alerter an alert is a line of the log at level error.
func TestLogIsTheDefaultAlerter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender, log := newStore(), newSender(), &logtest.Buffer{}
		id := store.put(t, 1, "orders", func(r *model.TransMessage) { r.Properties = []byte("{") })[0]
		r := start(t, compensator.Config{
			Store: store, Sender: sender,
			Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		time.Sleep(100 * time.Millisecond)
		r.drained(t) // also what died just before the stop is told
		lines := log.Lines("level=ERROR")
		if len(lines) != 1 || !strings.Contains(lines[0], "alert.id="+id) ||
			!strings.Contains(lines[0], "messages list --status DEAD") {
			t.Errorf("error lines %q, want one that names %s and the command", lines, id)
		}
	})
}
