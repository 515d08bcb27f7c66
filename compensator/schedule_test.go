package compensator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
)

// C51: over both changes of 2026 in a zone with daylight saving (the test binary's local
// zone), an interval has no gap and a daily cron fires once each 24 hours.
func TestC51_SchedulesIgnoreDaylightSaving(t *testing.T) {
	t.Parallel()
	if _, offset := time.Date(2026, 7, 1, 0, 0, 0, 0, time.Local).Zone(); offset != -4*3600 {
		t.Fatalf("the local zone has an offset of %d s in July, want New York's", offset)
	}
	for name, tt := range map[string]struct {
		cfg    compensator.Config
		period time.Duration
	}{
		// 02:30 does not exist on 8 March and 01:30 comes twice on 1 November in New York.
		"interval":     {compensator.Config{Interval: time.Hour}, time.Hour},
		"cron 02:30":   {compensator.Config{Cron: "30 2 * * *"}, 24 * time.Hour},
		"cron 01:30":   {compensator.Config{Cron: "0 30 1 * * *"}, 24 * time.Hour},
		"cron by hour": {compensator.Config{Cron: "0 * * * *"}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2026, 3, 1, 12, 0, 0, 1, time.UTC)))
				var starts []time.Time
				cfg := tt.cfg
				cfg.Store, cfg.Sender = newStore(), newSender()
				cfg.AlertWindow = compensator.MaxAlertWindow // eight months of looks every second take minutes
				cfg.Observers = []compensator.Observer{{RunStart: func() {
					// gocron may fire twice in one instant where time stands still, as it does here.
					if now := time.Now(); len(starts) == 0 || starts[len(starts)-1].Before(now) {
						starts = append(starts, now)
					}
				}}}
				r := start(t, cfg)
				time.Sleep(time.Until(time.Date(2026, 11, 10, 0, 0, 0, 0, time.UTC)))
				r.drained(t)
				if len(starts) < 250 {
					t.Fatalf("%d runs in eight months, want more", len(starts))
				}
				for i := 1; i < len(starts); i++ {
					if gap := starts[i].Sub(starts[i-1]); gap < tt.period-time.Second || gap > tt.period+time.Second {
						t.Errorf("run at %s came %v after the one before, want %v", starts[i], gap, tt.period)
					}
				}
			})
		})
	}
}

// C51: a run that takes longer than the interval does not overlap itself, and replicas
// with shifted starts send nothing twice.
func TestC51_RunsDoNotOverlap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		sender.delay = 3 * time.Second
		sender.script = func(s confirms.Send) model.Outcome {
			if s.Message.RoutingKey == "nope" {
				return returned(s)
			}
			return model.Outcome{Kind: model.Acked}
		}
		ids := store.put(t, 100, "orders", nil)
		failing := store.put(t, 1, "orders", func(r *model.TransMessage) { r.RoutingKey = "nope" })[0]
		var replicas []*running
		for range 3 {
			open := 0
			replicas = append(replicas, start(t, compensator.Config{
				Store: store, Sender: sender, BatchRows: 10,
				Policy: model.Policy{BaseDelay: 5 * time.Second, Multiplier: 1, Jitter: model.None},
				Observers: []compensator.Observer{{
					RunStart: func() {
						if open++; open > 1 {
							t.Error("two runs of one compensator at a time")
						}
					},
					RunEnd: func(compensator.RunStats) { open-- },
				}},
			}))
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(40 * time.Second)
		for _, r := range replicas {
			r.drained(t)
		}
		once(t, sender, ids)
		// One try each 3 s of confirm + 5 s of delay + at most an interval.
		if n := sender.times(failing); n < 4 || n > 6 {
			t.Errorf("the failing row was tried %d times in 41 s, want its own cadence of 8 to 9 s", n)
		}
	})
}
