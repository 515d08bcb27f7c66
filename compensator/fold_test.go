package compensator_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/alert"
	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
)

// flood stores n rows with an id in each routing key, that die at their first send.
func flood(t *testing.T, store *fakeStore, n int, service, exchange string) {
	t.Helper()
	i := 0
	store.put(t, n, service, func(r *model.TransMessage) {
		i++
		r.Exchange, r.RoutingKey = exchange, fmt.Sprintf("nope.%d.created", i)
	})
}

// toldRows sums up the rows that a collector was told of.
func toldRows(alerts []compensator.Alert, service string) (rows int) {
	for _, a := range alerts {
		if a.Service == service {
			rows += a.Count
		}
	}
	return rows
}

// E10: one missing binding with ids in its keys is one thing that needs a person, and the
// alert of another cause does not wait behind it.
func TestE10_ManyKeysOfOneCauseAreOneAlert(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender, alerts := newStore(), newSender(), &collector{}
		sender.script = unbound
		flood(t, store, 300, "orders", "ex")
		store.put(t, 1, "payments", func(r *model.TransMessage) { r.RoutingKey = "nope.captured" })
		flood(t, store, 300, "orders", "ex")
		r := start(t, compensator.Config{
			Store: store, Sender: sender, Alerter: alerts, Policy: model.Policy{MaxAttempts: 1, MinDeadAge: model.None},
		})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got := alerts.got()
		if len(got) != 2 || toldRows(got, "orders") != 600 || toldRows(got, "payments") != 1 {
			t.Fatalf("%d alerts of %d and %d rows, want 2 of 600 and 1", len(got), toldRows(got, "orders"),
				toldRows(got, "payments"))
		}
		for _, a := range got {
			if a.Service == "payments" {
				continue
			}
			if a.RoutingKey != "" || a.RoutingKeys.Count != 300 || a.RoutingKeys.Samples[2] == "" ||
				a.Sample.ID == "" || a.Exchange != "ex" ||
				a.Command != "transmsg messages list --status DEAD --service orders --exchange ex --code 312" {
				t.Errorf("alert %+v, want one of 300 keys with samples", a)
			}
		}
		flood(t, store, 50, "orders", "ex") // of the same cause, in the same window
		store.put(t, 1, "payments", func(r *model.TransMessage) { r.RoutingKey = "nope.refunded" })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := alerts.got(); len(got) != 3 || got[2].RoutingKey != "nope.refunded" {
			t.Errorf("%d alerts, want one more, of the new cause", len(got))
		}
		time.Sleep(time.Minute)
		r.drained(t)
		if got := alerts.got(); len(got) != 4 || toldRows(got, "orders") != 650 {
			t.Errorf("%d alerts of %d rows, want 4 of 650", len(got), toldRows(got, "orders"))
		}
	})
}

// E10: keys that were told apart count, so that a flood which begins slowly folds too; and
// so do exchanges with ids in their names.
func TestE10_KeysAndExchangesFoldAcrossPasses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender, alerts := newStore(), newSender(), &collector{}
		sender.script = returned
		r := start(t, compensator.Config{
			Store: store, Sender: sender, Alerter: alerts, Policy: model.Policy{MaxAttempts: 1, MinDeadAge: model.None},
		})
		for i := range 40 { // one a second: the first three apart, then one for the rest, then one a window
			store.put(t, 1, "orders", func(r *model.TransMessage) { r.RoutingKey = fmt.Sprint("key.", i) })
			store.put(t, 1, "tenants", func(r *model.TransMessage) { r.Exchange = fmt.Sprint("tenant.", i) })
			time.Sleep(time.Second)
		}
		time.Sleep(3 * time.Minute)
		r.drained(t)
		got := alerts.got()
		if toldRows(got, "orders") != 40 || toldRows(got, "tenants") != 40 {
			t.Errorf("told of %d and %d rows, want 40 of both", toldRows(got, "orders"), toldRows(got, "tenants"))
		}
		if len(got) != 2*(3+1+1) {
			t.Errorf("%d alerts, want 10: %+v", len(got), got)
		}
		for _, a := range got {
			if a.Service == "tenants" && a.Exchange == "" && a.Exchanges.Count == 0 {
				t.Errorf("alert %+v names no exchange", a)
			}
		}
	})
}

// E10: conditions fold alike. Each exchange with an id in its name that does not exist is broken
// for itself.
func TestE10_NoticesFold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender, alerts := newStore(), newSender(), &collector{}
		sender.script = func(s confirms.Send) model.Outcome {
			return model.Outcome{Kind: model.Refused, Code: model.CodeNotFound, Text: "404 no " + s.Message.Exchange}
		}
		i := 0
		store.put(t, 200, "orders", func(r *model.TransMessage) { i++; r.Exchange = fmt.Sprint("tenant.", i) })
		r := start(t, compensator.Config{Store: store, Sender: sender, Alerter: alerts})
		time.Sleep(5 * time.Second)
		r.drained(t)
		broken := 0
		for _, a := range alerts.got() {
			if a.Kind == model.AlertExchange {
				broken++
				if a.Exchanges.Count != 200 || a.Count != 200 {
					t.Errorf("alert %+v, want one of 200 exchanges", a)
				}
			}
		}
		if broken != 1 {
			t.Errorf("%d alerts of broken exchanges, want 1", broken)
		}
	})
}

// throttle takes one alert in so long, and says when it takes the next.
type throttle struct {
	collector

	every time.Duration
	next  sync.Mutex
	open  time.Time
	said  time.Time // when it asked to be called again
	early int       // calls before that
}

func (s *throttle) Alert(ctx context.Context, a compensator.Alert) error {
	s.next.Lock()
	defer s.next.Unlock()
	if time.Now().Before(s.said) {
		s.early++
	}
	if left := time.Until(s.open); left > 0 {
		s.said = s.open
		return &alert.ThrottledError{After: left, Err: errSink}
	}
	s.open = time.Now().Add(s.every)
	return s.collector.Alert(ctx, a)
}

// E10: a sink that throttles, and one that hangs, rest alone: the third gets every alert at
// once and once, and the throttling one gets them all in its own time, new causes first.
func TestE10_ThrottlingSinkRestsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		sender.script = returned
		slow, good, hangs := &throttle{every: 40 * time.Second}, &collector{}, &collector{mode: "hang"}
		r := start(t, compensator.Config{
			Store: store, Sender: sender, Alerters: []compensator.Alerter{slow, hangs, good},
			Policy: model.Policy{MaxAttempts: 1, MinDeadAge: model.None},
		})
		const causes = 8
		for i := range causes {
			store.put(t, 10, name(i), nil)
			time.Sleep(20 * time.Second)
			synctest.Wait()
			if n := len(good.got()); n != i+1 {
				t.Fatalf("the sink that works was told %d alerts after %d causes", n, i+1)
			}
		}
		store.put(t, 10, name(0), nil) // told before: behind the new ones
		store.put(t, 10, "payments", nil)
		time.Sleep(20 * time.Minute)
		hangs.set("")
		time.Sleep(20 * time.Minute)
		r.drained(t)
		slow.mu.Lock()
		before := map[string]int{}
		for _, a := range slow.alerts {
			before[a.Service]++
			if a.Service == "payments" && before[name(0)] > 1 {
				t.Error("a cause that was told before went before a new one")
			}
		}
		slow.mu.Unlock()
		for which, c := range map[string]*collector{"throttling": &slow.collector, "working": good, "hanging": hangs} {
			for i := range causes {
				want := 10
				if i == 0 {
					want = 20
				}
				if n := toldRows(c.got(), name(i)); n != want {
					t.Errorf("%s sink: told of %d rows of %s, want %d", which, n, name(i), want)
				}
			}
			if n := toldRows(c.got(), "payments"); n != 10 {
				t.Errorf("%s sink: told of %d rows of payments, want 10", which, n)
			}
		}
		if slow.early > 0 {
			t.Errorf("%d calls before the time that the sink asked for", slow.early)
		}
	})
}
