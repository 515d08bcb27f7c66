package compensator_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/model"
)

// sentBetween counts sends by second since begin.
func (s *fakeSender) sentBetween(begin time.Time, from, to time.Duration) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, at := range s.at {
		if d := at.Sub(begin); d >= from && d < to {
			n++
		}
	}
	return n
}

// C44: after an outage the rate climbs from a tenth to the limit within SlowStart, and no
// second has more than 1.1 times the limit.
func TestC44_SlowStartAfterAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rate = 50
		store, sender := newStore(), newSender()
		sender.setDown(true)
		store.put(t, 1200, "orders", nil)
		r := start(t, compensator.Config{
			Store: store, Sender: sender, Rate: rate, Policy: model.Policy{MaxAttempts: 5, MinDeadAge: model.None},
		})
		time.Sleep(10 * time.Minute)
		sender.setDown(false)
		begin := time.Now()
		time.Sleep(45 * time.Second)
		r.drained(t)
		if store.left() != 0 || len(store.dead) != 0 {
			t.Errorf("%d rows left, %d DEAD; want none", store.left(), len(store.dead))
		}
		before := 0
		for from := time.Duration(0); from < 30*time.Second; from += 5 * time.Second {
			n := sender.sentBetween(begin, from, from+5*time.Second)
			middle := (from + 2500*time.Millisecond).Seconds() / compensator.DefaultSlowStart.Seconds()
			want := 5 * rate * (0.1 + 0.9*middle)
			if n <= before || float64(n) > 1.3*want || float64(n) < 0.5*want {
				t.Errorf("%d sends in the 5 s from %v, %d before; want it to climb, about %.0f", n, from, before, want)
			}
			before = n
		}
		for i := 0; i+56 < len(sender.at); i++ {
			if d := sender.at[i+56].Sub(sender.at[i]); d < time.Second {
				t.Fatalf("57 sends within %v at 50 per second", d)
			}
		}
	})
}

// Without a Rate, a short gap, or with it switched off, nothing is slow: 5,000 rows are
// through within seconds of the outage's end.
func TestC44_SlowStartDelaysNoSmallBacklog(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cfg    compensator.Config
		outage time.Duration
		within time.Duration
	}{
		"no rate":      {compensator.Config{}, time.Minute, 2 * time.Second},
		"short outage": {compensator.Config{Rate: 5000}, 3 * time.Second, 2200 * time.Millisecond},
		"off":          {compensator.Config{Rate: 5000, SlowStart: model.None}, time.Minute, 2200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, sender := newStore(), newSender()
				sender.setDown(true)
				store.put(t, 5000, "orders", nil)
				cfg := tt.cfg
				cfg.Store, cfg.Sender = store, sender
				r := start(t, cfg)
				time.Sleep(tt.outage)
				sender.setDown(false)
				time.Sleep(tt.within)
				synctest.Wait()
				if n := store.left(); n != 0 {
					t.Errorf("%d rows left %v after the outage, want 0", n, tt.within)
				}
				r.drained(t)
			})
		})
	}
}

// stoppingSender stands for a process that is stopped for a while in the middle of a run
// (SIGSTOP): time goes on, the process's timers do not fire meanwhile.
type stoppingSender struct {
	*fakeSender
	after int // reservations
	stop  func()
}

func (s *stoppingSender) TryReserve(n int, bytes int64) bool {
	if s.after--; s.after == 0 {
		s.stop()
	}
	return s.fakeSender.TryReserve(n, bytes)
}

// clockLocker gives one slot with the holder's own clock, as a Redis lock does.
type clockLocker struct{ ttl time.Duration }

func (l *clockLocker) Do(
	ctx context.Context, _ string, fn func(context.Context, func() bool) error,
) error {
	since := time.Now()
	return fn(ctx, func() bool { return time.Since(since) < l.ttl })
}

// A process that was stopped for longer than the slot's TTL sends at most the row it was
// at, hands the rest back, and another process sends those: each once.
func TestStoppedProcessSendsNothingAfterItsSlot(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		pause time.Duration
		sent  int
	}{
		// The row at hand is still this process's by its lease.
		"three TTLs, within the lease": {30 * time.Second, 10},
		// The sender itself looks at the time since the claim last.
		"beyond the lease": {2 * time.Minute, 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, sender := newStore(), newSender()
				ids := store.put(t, 100, "orders", nil)
				var other *running
				second := newSender()
				stopped := &stoppingSender{fakeSender: sender, after: 10, stop: func() {
					if tt.pause > time.Minute { // its leases end, and another takes over
						other = start(t, compensator.Config{Store: store, Sender: second})
					}
					time.Sleep(tt.pause)
				}}
				r := start(t, compensator.Config{
					Store: store, Sender: stopped, Interval: time.Hour, Locker: &clockLocker{ttl: 10 * time.Second},
				})
				time.Sleep(tt.pause + time.Minute)
				synctest.Wait()
				acked := 0
				for _, id := range ids[:10] {
					acked += sender.times(id)
				}
				if sender.total() > 10 || acked < 9 {
					t.Errorf("%d sends by the stopped process, want at most the row it was at", sender.total())
				}
				r.drained(t)
				if other == nil {
					other = start(t, compensator.Config{Store: store, Sender: second})
					time.Sleep(time.Second)
				}
				other.drained(t)
				if n := store.left(); n != 0 {
					t.Errorf("%d rows left, want 0", n)
				}
				for i, id := range ids {
					want := 1
					if i < tt.sent {
						want = 0
					}
					if n := second.times(id); n != want {
						t.Errorf("row %d was sent %d times by the other process, want %d", i, n, want)
					}
				}
			})
		})
	}
}
