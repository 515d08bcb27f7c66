package compensator_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

// of returns the alerts of a kind.
func (c *collector) of(kind model.AlertKind) (out []compensator.Alert) {
	for _, a := range c.got() {
		if a.Kind == kind {
			out = append(out, a)
		}
	}
	return out
}

// told is how many rows the alerts of a kind are about.
func (c *collector) told(kind model.AlertKind) (n int) {
	for _, a := range c.of(kind) {
		n += a.Count
	}
	return n
}

// exhausting is a compensator to whose messages two attempts are all.
func (r *rig) exhausting(alerts *collector, minDeadAge time.Duration) compensator.Config {
	cfg := r.config()
	cfg.Alerter, cfg.AlertWindow = alerts, time.Second
	cfg.Policy.MaxAttempts, cfg.Policy.MinDeadAge = 2, minDeadAge
	return cfg
}

// E4: messages that nobody can route have used up their attempts within a second, and a person
// is told at once; they stay READY and are sent on, and delivered when the queue is bound.
func TestE4_UsedUpAttemptsAreToldAndSentOn(t *testing.T) {
	onStores(t, func(t *testing.T, r *rig) {
		ids := r.put(3, "orders", "ex", "late")
		alerts := &collector{}
		c := start(t, r.exhausting(alerts, 0)) // the default
		eventually(t, "all three are told", func() bool { return alerts.told(model.AlertExhausted) >= 3 })
		eventually(t, "they are sent on", func() bool {
			rows, err := r.store.List(t.Context(), model.Filter{Exhausted: true})
			r.must(err)
			return len(rows) == 3 && rows[0].Attempts > 3 && rows[1].Attempts > 3 && rows[2].Attempts > 3
		})
		if s := r.stats(); s.Exhausted != 3 || s.Ready != 3 || s.Dead != 0 {
			t.Errorf("stats %+v, want 3 READY, all exhausted", s)
		}
		r.must(r.Queue(amqptest.QueueSpec{Name: "late"}))
		r.must(r.Bind("late", "ex", "late"))
		r.untilRows(0, 0)
		c.drained(t)
		r.deliveredOnce("late", ids)
		if n := alerts.told(model.AlertExhausted); n != 3 {
			t.Errorf("told of %d rows, want each of 3 once", n)
		}
		a := alerts.of(model.AlertExhausted)[0]
		if a.Code != model.CodeNoRoute || a.Sample.Attempts < 2 || !strings.HasPrefix(a.Command,
			"transmsg messages list --exhausted --service orders --exchange ex --routing-key late --code 312") ||
			!strings.HasPrefix(a.Resend, "transmsg messages retry --service orders") {
			t.Errorf("alert %+v", a)
		}
	})
}

// E4: a row goes DEAD when its attempts are used up and it is old enough, by the database's
// clock from its own first answered failure, and not before.
func TestE4_DeadOnceOldEnough(t *testing.T) {
	onStores(t, func(t *testing.T, r *rig) {
		const least = 2 * time.Second
		ids := r.put(3, "orders", "ex", "nobody")
		alerts := &collector{}
		c := start(t, r.exhausting(alerts, least))
		r.untilRows(0, 3)
		eventually(t, "all three are told", func() bool { return alerts.told(model.AlertDead) >= 3 })
		c.drained(t)
		for _, id := range ids {
			row, _ := r.show(id)
			if age := row.FailingFor(row.UpdatedAt); age < least || row.Attempts <= 2 {
				t.Errorf("DEAD %v after its first failure with %d attempts, want at least %v and more than 2",
					age, row.Attempts, least)
			}
		}
		if n := alerts.told(model.AlertDead); n != 3 || alerts.told(model.AlertExhausted) != 3 {
			t.Errorf("told of %d DEAD and %d exhausted rows, want 3 and 3", n, alerts.told(model.AlertExhausted))
		}
	})
}

// S5: with the defaults each alert about a message that nobody can route comes, one after the
// other: its attempts are used up, it is the oldest, it is DEAD.
func TestS5_EachDefaultAlertCanFire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender, alerts := newStore(), newSender(), &collector{}
		sender.script, store.counts = returned, true
		store.put(t, 1, "orders", nil)
		r := start(t, compensator.Config{Store: store, Sender: sender, Alerter: alerts})
		time.Sleep(2 * time.Hour)
		r.drained(t)
		var kinds []model.AlertKind
		for _, a := range alerts.got() {
			if !slices.Contains(kinds, a.Kind) {
				kinds = append(kinds, a.Kind)
			}
		}
		want := []model.AlertKind{model.AlertExhausted, model.AlertOldest, model.AlertDead}
		if !slices.Equal(kinds, want) {
			t.Errorf("alerts %q, want %q", kinds, want)
		}
	})
}
