package compensator_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
)

func TestRunSendsEverythingDueOnceAndDeletesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		sender.delay = 5 * time.Millisecond
		ids := store.put(t, 1234, "orders", nil)
		var figures []compensator.Figures
		r := start(t, compensator.Config{
			Store: store, Sender: sender, BatchRows: 100,
			Observer: compensator.Observer{RunEnd: func(f compensator.Figures) { figures = append(figures, f) }},
		})
		synctest.Wait()
		time.Sleep(500 * time.Millisecond)
		r.drained(t)
		if n := store.left(); n != 0 {
			t.Errorf("%d rows left, want 0", n)
		}
		once(t, sender, ids)
		if len(figures) == 0 || figures[0].Acked != 1234 || figures[0].Rows != 1234 || figures[0].Cause != nil {
			t.Errorf("figures of the first run: %+v, want 1234 acked", figures)
		}
	})
}

// The next claim does not wait for the confirms of the one before.
func TestRunPipelinesAndBoundsClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		sender.delay = time.Second
		store.put(t, 50, "orders", nil)
		var mu sync.Mutex
		most, claims := 0, 0
		store.before = func(model.Claim) {
			mu.Lock()
			defer mu.Unlock()
			claims++
			sender.mu.Lock()
			most = max(most, sender.reserved)
			sender.mu.Unlock()
		}
		r := start(t, compensator.Config{Store: store, Sender: sender, BatchRows: 10})
		synctest.Wait()
		mu.Lock()
		if claims != 2 || most != 10 {
			t.Errorf("with no confirm yet: %d claims, %d outstanding at a claim; want 2 and 10", claims, most)
		}
		mu.Unlock()
		time.Sleep(10 * time.Second)
		r.drained(t)
		if store.left() != 0 || most > 10 {
			t.Errorf("%d rows left, %d outstanding at a claim; want 0 and at most 10", store.left(), most)
		}
	})
}

// C44: an outage of any length spends no attempts, and what is due goes when it ends.
func TestC44_OutageClaimsNothingAndSpendsNoAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		ids := store.put(t, 200, "orders", nil)
		sender.setDown(true)
		skipped := 0
		alerts := &collector{}
		r := start(t, compensator.Config{
			Store: store, Sender: sender, Alerter: alerts,
			Policy:   model.Policy{MaxAttempts: 5},
			Observer: compensator.Observer{RunSkipped: func(string) { skipped++ }},
		})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := len(store.claimed()); n != 0 || skipped < 590 {
			t.Errorf("%d claims and %d skipped runs in 10 minutes of outage, want 0 and about 600", n, skipped)
		}
		sender.setDown(false)
		time.Sleep(2 * time.Second) // two intervals
		synctest.Wait()
		if n := store.left(); n != 0 {
			t.Errorf("%d rows left two intervals after the outage, want 0", n)
		}
		r.drained(t)
		once(t, sender, ids)
		if len(store.dead) != 0 || len(alerts.got()) != 0 {
			t.Errorf("%d DEAD, %d alerts; want none", len(store.dead), len(alerts.got()))
		}
	})
}

// C44: sends that the outage caught are unknown and cost no attempt either.
func TestC44_ClosedConnectionSpendsNoAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		ids := store.put(t, 20, "orders", nil)
		until := time.Now().Add(10 * time.Minute)
		sender.script = func(confirms.Send) model.Outcome {
			if time.Now().Before(until) {
				return model.Outcome{Kind: model.Unknown, Code: model.CodeClosed}
			}
			return model.Outcome{Kind: model.Acked}
		}
		r := start(t, compensator.Config{Store: store, Sender: sender, Policy: model.Policy{MaxAttempts: 5}})
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		for _, id := range ids {
			if row, ok := store.row(id); !ok || row.Attempts != 0 || row.Failures < 100 || row.Status != model.Ready {
				t.Fatalf("row after 9 minutes: %+v, want READY without attempts", row)
			}
		}
		time.Sleep(90 * time.Second)
		synctest.Wait()
		r.drained(t)
		if store.left() != 0 {
			t.Errorf("%d rows left after the outage, want 0", store.left())
		}
	})
}

// C46: three replicas without a shared lock send each row once, and a row that fails is
// tried once per its own delay whatever their number.
func TestC46_ReplicasSendEachRowOnce(t *testing.T) {
	t.Parallel()
	for _, locked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store, sender := newStore(), newSender()
			sender.delay = 3 * time.Millisecond
			good := store.put(t, 1000, "orders", nil)
			bad := store.put(t, 1, "orders", func(r *model.TransMessage) { r.RoutingKey = "nope" })[0]
			sender.script = func(s confirms.Send) model.Outcome {
				if s.Message.ID == bad {
					return returned(s)
				}
				return model.Outcome{Kind: model.Acked}
			}
			var shared compensator.Locker
			if locked {
				shared = &compensator.LocalLocker{}
			}
			var replicas []*running
			for range 3 {
				replicas = append(replicas, start(t, compensator.Config{
					Store: store, Sender: sender, BatchRows: 50,
					Locker: shared, Policy: model.Policy{BaseDelay: 10 * time.Second, Multiplier: 1, Jitter: -1},
				}))
				time.Sleep(300 * time.Millisecond)
			}
			time.Sleep(34 * time.Second)
			for _, r := range replicas {
				r.drained(t)
			}
			once(t, sender, good)
			if n := sender.times(bad); n != 4 {
				t.Errorf("locked %v: the failing row was tried %d times in 34 s with a delay of 10 s, want 4",
					locked, n)
			}
			if store.fenced != 0 {
				t.Errorf("locked %v: %d settlements fenced, want 0", locked, store.fenced)
			}
		})
	}
}

// C48: rows that cannot be sent, as many as a batch and older than the good ones, hold
// nobody up.
func TestC48_PoisonRowsDoNotBlockGoodOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		older := func(change func(*model.TransMessage)) func(*model.TransMessage) {
			return func(r *model.TransMessage) { r.NextAttemptAt -= 60_000; change(r) }
		}
		corrupt := store.put(t, 10, "orders", older(func(r *model.TransMessage) { r.Properties = []byte("garbage") }))
		newer := store.put(t, 10, "orders", older(func(r *model.TransMessage) { r.Properties = []byte(`{"v":99}`) }))
		invalid := store.put(t, 10, "orders", older(func(r *model.TransMessage) { r.Exchange = "a\rb" }))
		missing := store.put(t, 10, "orders", older(func(r *model.TransMessage) { r.Exchange = "noex" }))
		badID := store.put(t, 1, "orders", older(func(r *model.TransMessage) { r.ID = "not-a-uuid" }))
		good := store.put(t, 100, "orders", nil)
		sender.script = func(s confirms.Send) model.Outcome {
			if s.Message.Exchange == "noex" {
				return model.Outcome{Kind: model.Refused, Code: model.CodeNotFound}
			}
			return model.Outcome{Kind: model.Acked}
		}
		alerts := &collector{}
		r := start(t, compensator.Config{Store: store, Sender: sender, BatchRows: 41, Alerter: alerts})
		time.Sleep(1900 * time.Millisecond) // two ticks
		synctest.Wait()
		once(t, sender, good)
		check := func(kind string, ids []string, status model.Status, code model.Code, attempts int, sent bool) {
			t.Helper()
			for _, id := range ids {
				row, ok := store.row(id)
				if !ok || row.Status != status || row.LastCode != code || row.Attempts < attempts {
					t.Errorf("%s: row %+v (there: %v), want %s with %s", kind, row, ok, status, code)
				}
				if got := sender.times(id) > 0; got != sent {
					t.Errorf("%s: reached the sender: %v, want %v", kind, got, sent)
				}
			}
		}
		check("corrupt", corrupt, model.Dead, model.CodeCorrupt, 1, false)
		check("invalid", invalid, model.Dead, model.CodeInvalid, 1, false)
		check("bad id", badID, model.Dead, model.CodeInvalid, 1, false)
		check("missing exchange", missing, model.Ready, model.CodeNotFound, 1, true)
		check("newer codec", newer, model.Ready, model.CodeNewerCodec, 0, false)
		for _, id := range newer {
			if row, _ := store.row(id); row.Attempts != 0 || row.NextAttemptAt <= nowMS()-1000 {
				t.Errorf("newer codec: %d attempts, due %d ms ago; want none and a delay",
					row.Attempts, nowMS()-row.NextAttemptAt)
			}
		}
		time.Sleep(time.Minute)
		r.drained(t)
		perCode := map[model.Code]int{}
		for _, a := range alerts.got() {
			perCode[a.Code]++
		}
		if perCode[model.CodeCorrupt] != 10 || perCode[model.CodeInvalid] != 11 || perCode[model.CodeNewerCodec] != 10 {
			t.Errorf("alerts by code: %v, want 10 corrupt, 11 invalid and 10 newer-codec", perCode)
		}
	})
}

// C48: the loop survives panics, and the rows claimed then are handed back.
func TestC48_RunSurvivesPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		store.panics = 2
		ids := store.put(t, 10, "orders", nil)
		first := true
		sender.script = func(confirms.Send) model.Outcome { return model.Outcome{Kind: model.Acked} }
		panicking := &panickingSender{fakeSender: sender, panics: &first}
		locker := &compensator.LocalLocker{}
		r := start(t, compensator.Config{Store: store, Sender: panicking, Locker: locker})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := store.left(); n != 1 {
			t.Errorf("%d rows left after the panics, want the one that was being sent", n)
		}
		if err := r.stop(); !errors.Is(err, model.ErrNotDrained) {
			t.Errorf("run: %v, want ErrNotDrained for the send that never got an outcome", err)
		}
		for _, id := range ids {
			if sender.times(id) > 1 {
				t.Errorf("id %s was sent %d times", id, sender.times(id))
			}
		}
	})
}

type panickingSender struct {
	*fakeSender
	panics *bool
}

func (s *panickingSender) Send(send confirms.Send) {
	if *s.panics {
		*s.panics = false
		panic("sender panics")
	}
	s.fakeSender.Send(send)
}

// C24: a stop hands back what was claimed and not sent, waits for the confirms of what
// was sent, and reports that it drained.
func TestC24_StopHandsBackAndWaitsForConfirms(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		sender.room, sender.delay = 10, 5*time.Second
		store.put(t, 100, "orders", nil)
		r := start(t, compensator.Config{Store: store, Sender: sender})
		synctest.Wait()
		begin := time.Now()
		r.drained(t)
		if took := time.Since(begin); took > 6*time.Second {
			t.Errorf("stop took %v of the bubble's time, want the confirm's 5 s", took)
		}
		if store.left() != 90 || sender.total() != 10 {
			t.Errorf("%d rows left, %d sent; want 90 and 10", store.left(), sender.total())
		}
		for _, row := range store.rows {
			if row.NextAttemptAt > nowMS() || row.ClaimedBy != "" || row.Attempts != 0 || row.Failures != 0 {
				t.Errorf("row after the stop: %+v, want it due and unclaimed", row)
			}
		}
	})
}

// A confirm that does not come within DrainTimeout makes the stop an error; the row
// stays leased and READY.
func TestStopGivesUpAfterDrainTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		sender.delay = 30 * time.Second
		ids := store.put(t, 3, "orders", nil)
		r := start(t, compensator.Config{Store: store, Sender: sender, DrainTimeout: 2 * time.Second})
		synctest.Wait()
		begin := time.Now()
		if err := r.stop(); !errors.Is(err, model.ErrNotDrained) {
			t.Errorf("run: %v, want ErrNotDrained", err)
		}
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("stop took %v, want the DrainTimeout of 2 s", took)
		}
		if row, ok := store.row(ids[0]); !ok || row.NextAttemptAt <= nowMS() {
			t.Errorf("row %+v (there: %v), want it under its lease", row, ok)
		}
		sender.pending.Wait()
	})
}

// A run that lost its slot stops before the next row, and its rows are due for others.
func TestLostLockStopsBeforeTheNextRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		sender.room, sender.delay = 1, 100*time.Millisecond
		store.put(t, 50, "orders", nil)
		locker := &losingLocker{after: time.Second}
		var lost []error
		r := start(t, compensator.Config{
			Store: store, Sender: sender, Locker: locker, Interval: time.Hour,
			Observer: compensator.Observer{LockLost: func(err error) { lost = append(lost, err) }},
		})
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if n := sender.total(); n < 9 || n > 11 {
			t.Errorf("%d rows sent in the second before the loss, want about 10", n)
		}
		if len(lost) != 1 || !errors.Is(lost[0], compensator.ErrLockLost) {
			t.Errorf("LockLost was told %v, want one ErrLockLost", lost)
		}
		for _, row := range store.rows {
			if row.NextAttemptAt > nowMS() {
				t.Errorf("row %+v is still leased after the loss", row)
			}
		}
		r.drained(t)
	})
}

// losingLocker gives a slot that is lost after a while.
type losingLocker struct{ after time.Duration }

func (l *losingLocker) Do(
	ctx context.Context, _ string, fn func(context.Context, func() bool) error,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(l.after, func() { cancel(compensator.ErrLockLost) })
	defer timer.Stop()
	return fn(ctx, func() bool { return ctx.Err() == nil })
}

// Services with much and with little to send are served in turn, also when the little
// comes while the much is being drained.
func TestServicesAreServedInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		sender.delay = time.Millisecond
		store.put(t, 2000, "a", nil)
		var few []string
		begun, claims := 0, 0
		store.before = func(model.Claim) {
			if claims++; claims == 5 {
				few = store.put(t, 10, "b", nil)
				begun = sender.total()
			}
		}
		r := start(t, compensator.Config{Store: store, Sender: sender, BatchRows: 50})
		time.Sleep(5 * time.Second)
		r.drained(t)
		at := slices.Index(sender.order, few[len(few)-1])
		if at < begun || at > begun+2*50+10 {
			t.Errorf("the last row of the small service was sent at position %d, want it within two rounds from %d",
				at, begun)
		}
	})
}

func TestServicesRestrict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		mine := store.put(t, 3, "mine", nil)
		other := store.put(t, 3, "other", nil)
		r := start(t, compensator.Config{Store: store, Sender: sender, Services: []string{"mine"}})
		time.Sleep(3 * time.Second)
		r.drained(t)
		once(t, sender, mine)
		if store.left() != len(other) {
			t.Errorf("%d rows left, want the other service's %d", store.left(), len(other))
		}
	})
}

func TestRateIsNeverExceeded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		store.put(t, 500, "orders", nil)
		begin := time.Now()
		r := start(t, compensator.Config{Store: store, Sender: sender, Rate: 50})
		for store.left() > 0 {
			time.Sleep(100 * time.Millisecond)
		}
		took := time.Since(begin)
		r.drained(t)
		if took < 9*time.Second || took > 14*time.Second {
			t.Errorf("500 rows at 50 per second took %v, want about 10 s", took)
		}
		for i := 0; i+56 < len(sender.at); i++ {
			if d := sender.at[i+56].Sub(sender.at[i]); d < time.Second {
				t.Fatalf("57 sends within %v at 50 per second", d)
			}
		}
	})
}

// A sender that takes nothing must not be asked in a hot loop.
func TestDeferredRowsWaitForTheNextRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		sender.delay = time.Millisecond
		id := store.put(t, 1, "orders", nil)[0]
		sender.script = func(confirms.Send) model.Outcome {
			return model.Outcome{Kind: model.Deferred, Code: model.CodeNotSent}
		}
		r := start(t, compensator.Config{Store: store, Sender: sender})
		time.Sleep(9500 * time.Millisecond)
		synctest.Wait()
		if n := sender.times(id); n < 10 || n > 20 {
			t.Errorf("the row was handed over %d times in 10 runs, want once or twice a run", n)
		}
		if row, _ := store.row(id); row.Attempts != 0 || row.Failures != 0 || row.Status != model.Ready {
			t.Errorf("row %+v, want it READY and uncharged", row)
		}
		r.drained(t)
	})
}

// A row whose outcome stays unknown past its lease goes to the next claim; a late ack
// still deletes it.
func TestLateAckDeletesTheRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		sender.late = true
		sender.script = func(confirms.Send) model.Outcome {
			return model.Outcome{Kind: model.Unknown, Code: model.CodeTimeout}
		}
		store.put(t, 1, "orders", nil)
		r := start(t, compensator.Config{
			Store: store, Sender: sender,
			Policy: model.Policy{BaseDelay: time.Minute, Jitter: -1},
		})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if store.left() != 0 || sender.total() != 1 {
			t.Errorf("%d rows left after %d sends; want 0 after 1", store.left(), sender.total())
		}
		r.drained(t)
	})
}

// A row that is too old at a failed send goes DEAD whatever its attempts.
func TestMaxAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		sender.script = returned
		id := store.put(t, 1, "orders", nil)[0]
		r := start(t, compensator.Config{
			Store: store, Sender: sender,
			Policy: model.Policy{BaseDelay: 20 * time.Second, Multiplier: 1, Jitter: -1, MaxAge: time.Minute},
		})
		time.Sleep(2 * time.Minute)
		r.drained(t)
		if row, _ := store.row(id); row.Status != model.Dead || sender.times(id) != 4 {
			t.Errorf("row %+v after %d sends, want DEAD at the one 60 s after it was stored", row, sender.times(id))
		}
	})
}

// Suspects, and rows that were claimed again and again without an outcome, go alone.
func TestSuspectsGoAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		plain := store.put(t, 1, "orders", func(r *model.TransMessage) { r.Claims = 1 })[0]
		suspect := store.put(t, 1, "orders", func(r *model.TransMessage) { r.LastCode = model.CodeSuspect })[0]
		looping := store.put(t, 1, "orders", func(r *model.TransMessage) { r.Claims = 2 })[0]
		r := start(t, compensator.Config{Store: store, Sender: sender})
		time.Sleep(time.Second)
		r.drained(t)
		if sender.alone[plain] || !sender.alone[suspect] || !sender.alone[looping] {
			t.Errorf("alone: plain %v, suspect %v, third claim %v; want false, true, true",
				sender.alone[plain], sender.alone[suspect], sender.alone[looping])
		}
	})
}

// A database that is down ends runs, not the compensator.
func TestDatabaseDownIsSurvived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		ids := store.put(t, 10, "orders", nil)
		store.setErr(errDatabase)
		r := start(t, compensator.Config{Store: store, Sender: sender})
		time.Sleep(time.Minute)
		store.setErr(nil)
		time.Sleep(3 * time.Second)
		r.drained(t)
		once(t, sender, ids)
		if store.left() != 0 {
			t.Errorf("%d rows left, want 0", store.left())
		}
	})
}

// Rows that a crashed replica had claimed are sent when their leases end.
func TestC24_RowsOfADeadReplicaAreTakenOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		ids := store.put(t, 10, "orders", nil)
		if _, err := store.Claim(t.Context(), model.Claim{
			Service: "orders", Owner: "dead", MaxRows: 10,
			MaxBytes: 1 << 20, Lease: 30 * time.Second,
		}); err != nil {
			t.Fatal(err)
		}
		r := start(t, compensator.Config{Store: store, Sender: sender})
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if n := sender.total(); n != 0 {
			t.Errorf("%d rows sent under another's lease, want 0", n)
		}
		time.Sleep(2100 * time.Millisecond) // the lease, and an interval
		synctest.Wait()
		r.drained(t)
		once(t, sender, ids)
	})
}

func TestManyServices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		for i := range 30 {
			store.put(t, 7, name(i), nil)
		}
		r := start(t, compensator.Config{Store: store, Sender: sender, BatchRows: 3})
		time.Sleep(time.Second)
		r.drained(t)
		if store.left() != 0 || sender.total() != 210 {
			t.Errorf("%d left, %d sent; want 0 and 210", store.left(), sender.total())
		}
	})
}
