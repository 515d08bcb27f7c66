package compensator_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/internal/logtest"
	"github.com/transmsg/transmsg/model"
)

// TestS2_ServicesThatDoNotMatchAreSaid: within the first minute the log names the service of the
// settings that has no row, and the one in the table that nobody names; a second one that another
// process sends is not accused, and nothing is said twice.
func TestS2_ServicesThatDoNotMatchAreSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, log := newStore(), &logtest.Buffer{}
		store.stats = []model.Stats{
			{Service: "order", Ready: 7, Due: 7, OldestDue: time.Hour},
			{Service: "payments", Ready: 1, Due: 1, OldestDue: time.Second},
		}
		r := start(t, compensator.Config{
			Store: store, Sender: newSender(), Services: []string{"orders", "payments"},
			Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		time.Sleep(time.Minute)
		for _, want := range []string{
			"services=orders stored=order,payments", `services=order due=7 oldest_due=1h0m0s named=orders,payments`,
		} {
			if n := len(log.Lines(want)); n != 1 {
				t.Errorf("%d lines with %q after a minute, want 1:\n%s", n, want, log.Lines("services"))
			}
		}
		time.Sleep(time.Hour)
		r.drained(t)
		if got := log.Lines("services="); len(got) != 2 {
			t.Errorf("lines %s, want the two", strings.Join(got, "\n"))
		}
	})
}

// TestS2_AllServicesNeedNoNames: without names there is nothing to compare.
func TestS2_AllServicesNeedNoNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, log := newStore(), &logtest.Buffer{}
		store.stats = []model.Stats{{Service: "order", Ready: 7, Due: 7, OldestDue: time.Hour}}
		r := start(t, compensator.Config{
			Store: store, Sender: newSender(), OldestReady: model.None, Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		time.Sleep(10 * time.Minute)
		r.drained(t)
		if got := log.Lines("services="); len(got) != 0 {
			t.Errorf("lines %q, want none", got)
		}
	})
}
