package compensator_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/internal/logtest"
	"github.com/transmsg/transmsg/model"
)

// C66: rows that are neither delivered nor dead do not wait in silence.
func TestC66_OldestReadyRaisesAnAlert(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender, alerts := newStore(), newSender(), &collector{}
		sender.setDown(true) // alerts do not need the broker
		store.stats = []model.Stats{
			{Service: "orders", Ready: 7, OldestReady: 16 * time.Minute},
			{Service: "payments", Ready: 9, OldestReady: 15 * time.Minute},
		}
		r := start(t, compensator.Config{Store: store, Sender: sender, Alerter: alerts})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		got := alerts.got()
		if len(got) != 1 || got[0].Kind != model.AlertOldest || got[0].Service != "orders" || got[0].Count < 7 ||
			got[0].Command != "transmsg messages list --status READY --service orders" {
			t.Fatalf("alerts %+v, want one of orders", got)
		}
		if age := time.Since(got[0].First); age < 25*time.Minute || age > 27*time.Minute {
			t.Errorf("the oldest is said to be there for %v, want 16 min at the alert ten minutes ago", age)
		}
		time.Sleep(30 * time.Minute) // it lasts
		r.drained(t)
		if n := len(alerts.got()); n != 3 {
			t.Errorf("%d alerts in 40 minutes, want one every 15", n)
		}
	})
}

func TestOldestReadyCanBeOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, alerts := newStore(), &collector{}
		store.stats = []model.Stats{{Service: "orders", Ready: 1, OldestReady: time.Hour}}
		r := start(t, compensator.Config{Store: store, Sender: newSender(), Alerter: alerts, OldestReady: model.None})
		time.Sleep(10 * time.Minute)
		r.drained(t)
		if n := len(alerts.got()); n != 0 {
			t.Errorf("%d alerts, want none", n)
		}
	})
}

// A database whose clock has gone back hides how long rows wait: it is told, once, also
// where ages raise no alert; and again when it happens again.
func TestClockGoneBackRaisesOneAlert(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, alerts, log := newStore(), &collector{}, &logtest.Buffer{}
		ahead := func(d time.Duration) {
			store.mu.Lock()
			defer store.mu.Unlock()
			store.stats = []model.Stats{
				{Service: "orders", Ready: 7, Ahead: d}, {Service: "payments", Ready: 9, Ahead: time.Minute},
			}
		}
		told := func(want int) {
			t.Helper()
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if n := len(alerts.got()); n != want || len(log.Lines("database clock behind")) != want {
				t.Fatalf("%d alerts, want %d in all and as many lines of the log: %q", n, want, log.Lines(""))
			}
		}
		ahead(5 * time.Minute)
		r := start(t, compensator.Config{
			Store: store, Sender: newSender(), Alerter: alerts, OldestReady: model.None, Logger: textLog(log),
		})
		told(0)
		ahead(31 * time.Minute)
		told(1)
		ahead(0)
		told(1)
		ahead(time.Hour)
		told(2)
		r.drained(t)
		a := alerts.got()[0]
		if a.Kind != model.AlertClock || a.Service != "orders" || a.Count != 7 ||
			!strings.Contains(a.Text, "gone back by at least 31m0s") ||
			a.Command != "transmsg messages list --status READY --service orders" {
			t.Errorf("alert %+v", a)
		}
	})
}

// A condition that the sink does not take is kept and told later, with what came meanwhile.
func TestNoticesAreKeptWhileTheSinkFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, alerts := newStore(), &collector{mode: "fail"}
		newer := func(r *model.TransMessage) { r.Properties = []byte(`{"v":99}`) }
		store.put(t, 3, "orders", newer)
		r := start(t, compensator.Config{Store: store, Sender: newSender(), Alerter: alerts})
		time.Sleep(10 * time.Second)
		store.put(t, 4, "orders", newer)
		time.Sleep(10 * time.Second)
		alerts.set("")
		time.Sleep(5 * time.Minute)
		r.drained(t)
		got := alerts.got()
		if len(got) != 1 || got[0].Kind != model.AlertNewerCodec || got[0].Count != 7 || got[0].Sample.ID == "" {
			t.Errorf("alerts %+v, want one of 7 rows of a newer version", got)
		}
	})
}

// Retention goes in small batches, once a minute, by one replica of those that share a
// lock; DEAD rows are kept unless it is asked for.
func TestC66_Retention(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		dead time.Duration
		want []string
		left map[string]int
	}{
		"dead kept": {
			0,
			[]string{
				"events older than 720h0m0s: 500", "events older than 720h0m0s: 500", "events older than 720h0m0s: 200",
				"inbox older than 720h0m0s: 7",
				"events older than 720h0m0s: 0", "inbox older than 720h0m0s: 0",
				"events older than 720h0m0s: 0", "inbox older than 720h0m0s: 0",
			},
			map[string]int{"events": 0, "dead": 501, "inbox": 0},
		},
		"dead purged": {
			48 * time.Hour,
			[]string{
				"events older than 720h0m0s: 500", "events older than 720h0m0s: 500", "events older than 720h0m0s: 200",
				"dead older than 48h0m0s: 500", "dead older than 48h0m0s: 1", "inbox older than 720h0m0s: 7",
				"events older than 720h0m0s: 0", "dead older than 48h0m0s: 0", "inbox older than 720h0m0s: 0",
				"events older than 720h0m0s: 0", "dead older than 48h0m0s: 0", "inbox older than 720h0m0s: 0",
			},
			map[string]int{"events": 0, "dead": 0, "inbox": 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, locker := newStore(), &compensator.LocalLocker{}
				store.old = map[string]int{"events": 1200, "dead": 501, "inbox": 7}
				purged := map[string]int{}
				var mu sync.Mutex
				var replicas []*running
				for range 3 {
					replicas = append(replicas, start(t, compensator.Config{
						Store: store, Sender: newSender(), Locker: locker, DeadRetention: tt.dead,
						Observers: []compensator.Observer{{Purged: func(what string, n int) {
							mu.Lock()
							defer mu.Unlock()
							purged[what] += n
						}}},
					}))
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(2*time.Minute + 30*time.Second)
				for _, r := range replicas {
					r.drained(t)
				}
				if !slices.Equal(store.purges, tt.want) {
					t.Errorf("purges in three minutes:\n%s\nwant\n%s", strings.Join(store.purges, "\n"),
						strings.Join(tt.want, "\n"))
				}
				for what, left := range tt.left {
					gone := map[string]int{"events": 1200, "dead": 501, "inbox": 7}[what] - left
					if store.old[what] != left || purged[what] != gone {
						t.Errorf("%s: %d left, told %d; want %d, %d", what, store.old[what], purged[what], left, gone)
					}
				}
			})
		})
	}
}

// A failing database, and -1, end no upkeep of the others'.
func TestRetentionSurvivesErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		store.old = map[string]int{"events": 10, "dead": 10, "inbox": 10}
		store.setErr(errDatabase)
		var mu sync.Mutex
		ops := map[string]bool{}
		r := start(t, compensator.Config{
			Store: store, Sender: newSender(), DeadRetention: time.Hour, EventRetention: model.None,
			InboxRetention: model.None,
			Observers: []compensator.Observer{{StoreError: func(op string, _ error) {
				mu.Lock()
				defer mu.Unlock()
				ops[op] = true
			}}},
		})
		time.Sleep(5 * time.Minute)
		store.setErr(nil)
		time.Sleep(2 * time.Minute)
		r.drained(t)
		if store.old["events"] != 10 || store.old["inbox"] != 10 || store.old["dead"] != 0 {
			t.Errorf("left: %v, want the 10 events and records, kept for ever", store.old)
		}
		for _, op := range []string{"services", "claim-dead", "stats", "purge-dead"} {
			if !ops[op] {
				t.Errorf("no store error of %s was told: %v", op, ops)
			}
		}
	})
}
