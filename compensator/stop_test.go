package compensator_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
)

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
			Observers: []compensator.Observer{{LockLost: func(err error) { lost = append(lost, err) }}},
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

// A large backlog in front of a sender that takes nothing costs a few claims a run.
func TestDeferredBacklogIsNoHotLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		sender.delay = time.Millisecond
		store.put(t, 1000, "orders", nil)
		sender.script = func(confirms.Send) model.Outcome {
			return model.Outcome{Kind: model.Deferred, Code: model.CodeNotSent}
		}
		r := start(t, compensator.Config{Store: store, Sender: sender, BatchRows: 50})
		time.Sleep(4500 * time.Millisecond)
		synctest.Wait()
		if n := len(store.claimed()); n < 5 || n > 5*5 {
			t.Errorf("%d claims in 5 runs, want a few each", n)
		}
		r.drained(t)
	})
}

// When the sender stops being ready in the middle of a batch, the rest is handed back at
// once and nothing more is claimed.
func TestC44_SenderLostInTheMiddleHandsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		sender.room, sender.delay = 10, 100*time.Millisecond
		store.put(t, 100, "orders", nil)
		r := start(t, compensator.Config{Store: store, Sender: sender})
		time.Sleep(250 * time.Millisecond)
		sender.setDown(true)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := len(store.claimed()); n != 1 {
			t.Errorf("%d claims, want the one before the loss", n)
		}
		if n := store.left(); n == 0 || n == 100 {
			t.Errorf("%d rows left, want some", n)
		}
		for _, row := range store.rows {
			if row.NextAttemptAt > nowMS() || row.ClaimedBy != "" || row.Failures != 0 {
				t.Errorf("row after the loss: %+v, want it due, unclaimed and uncharged", row)
			}
		}
		r.drained(t)
	})
}

// Rows that become due behind the cursor of a drain are found by the same run, also when
// others have taken what lies ahead of it.
func TestRowsBehindTheCursorAreFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		store.put(t, 100, "orders", nil)
		var behind []string
		claims := 0
		store.before = func(model.Claim) {
			if claims++; claims == 2 {
				store.mu.Lock()
				for _, row := range store.due("orders") { // taken by another
					delete(store.rows, row.ID)
				}
				store.mu.Unlock()
				behind = store.put(t, 3, "orders", func(r *model.TransMessage) { r.NextAttemptAt -= 1000 })
			}
		}
		r := start(t, compensator.Config{Store: store, Sender: sender, BatchRows: 50, Interval: time.Hour})
		time.Sleep(time.Minute)
		r.drained(t)
		once(t, sender, behind)
	})
}

// A row that the sender says it can never take is charged and does not hold others up.
func TestRowTooLargeForTheSender(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		large := store.put(t, 1, "orders", func(r *model.TransMessage) { r.Payload = make([]byte, 2000) })[0]
		good := store.put(t, 10, "orders", nil)
		r := start(t, compensator.Config{Store: store, Sender: &boundedSender{fakeSender: sender, most: 1000}})
		time.Sleep(100 * time.Millisecond)
		r.drained(t)
		once(t, sender, good)
		row, _ := store.row(large)
		if row.Status != model.Ready || row.Attempts != 1 || row.LastCode != model.CodeInvalid || row.LastError == "" {
			t.Errorf("row %+v, want it charged with the sender's words", row)
		}
	})
}

// boundedSender never has room for more than so many bytes.
type boundedSender struct {
	*fakeSender
	most int64
}

func (s *boundedSender) TryReserve(n int, bytes int64) bool {
	return bytes <= s.most && s.fakeSender.TryReserve(n, bytes)
}

func (s *boundedSender) Reserve(ctx context.Context, n int, bytes int64) error {
	if bytes > s.most {
		return errors.New("can never fit")
	}
	return s.fakeSender.Reserve(ctx, n, bytes)
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
			Policy: model.Policy{BaseDelay: time.Minute, Jitter: model.None},
		})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if store.left() != 0 || sender.total() != 1 {
			t.Errorf("%d rows left after %d sends; want 0 after 1", store.left(), sender.total())
		}
		r.drained(t)
	})
}

// A row that has failed for too long goes DEAD whatever its attempts. What it waited before
// its first answer, in an outage or for its NotBefore, does not count.
func TestD3_MaxAgeCountsFromTheFirstAnsweredFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		sender.script = returned
		id := store.put(t, 1, "orders", func(r *model.TransMessage) { r.CreatedAt -= time.Hour.Milliseconds() })[0]
		r := start(t, compensator.Config{
			Store: store, Sender: sender,
			Policy: model.Policy{
				BaseDelay: 20 * time.Second, Multiplier: 1, Jitter: model.None, MinDeadAge: model.None,
				MaxAge: time.Minute,
			},
		})
		time.Sleep(2 * time.Minute)
		r.drained(t)
		if row, _ := store.row(id); row.Status != model.Dead || sender.times(id) != 4 {
			t.Errorf("row %+v after %d sends, want DEAD at the one 60 s after its first", row, sender.times(id))
		}
	})
}

// Suspects, those proved guilty, and rows that were claimed again and again without an
// outcome, go alone.
func TestSuspectsGoAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		plain := store.put(t, 1, "orders", func(r *model.TransMessage) { r.Claims = 1 })[0]
		suspect := store.put(t, 1, "orders", func(r *model.TransMessage) { r.LastCode = model.CodeSuspect })[0]
		guilty := store.put(t, 1, "orders", func(r *model.TransMessage) { r.LastCode = model.CodeOther })[0]
		looping := store.put(t, 1, "orders", func(r *model.TransMessage) { r.Claims = 2 })[0]
		r := start(t, compensator.Config{Store: store, Sender: sender})
		time.Sleep(time.Second)
		r.drained(t)
		if sender.alone[plain] || !sender.alone[suspect] || !sender.alone[guilty] || !sender.alone[looping] {
			t.Errorf("alone: plain %v, suspect %v, guilty %v, third claim %v; want false, then true",
				sender.alone[plain], sender.alone[suspect], sender.alone[guilty], sender.alone[looping])
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
			Service: "orders", Instance: "dead", MaxRows: 10,
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
