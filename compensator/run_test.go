package compensator_test

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"
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
		var figures []compensator.RunStats
		r := start(t, compensator.Config{
			Store: store, Sender: sender, BatchRows: 100,
			Observers: []compensator.Observer{{RunEnd: func(f compensator.RunStats) { figures = append(figures, f) }}},
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

// A channel that the broker closed because of one message is open again at once: the rows
// behind that message do not wait for the next run.
func TestRunGoesOnWhenAChannelIsReopened(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		sender.room = 1 // the run stands at the second row when the channel closes
		ids := store.put(t, 100, "orders", nil)
		sender.delay = time.Millisecond
		sender.script = func(s confirms.Send) model.Outcome {
			if sender.total() == 10 {
				sender.setDown(true)
				time.AfterFunc(300*time.Millisecond, func() { sender.setDown(false) })
			}
			return model.Outcome{Kind: model.Acked}
		}
		var figures []compensator.RunStats
		r := start(t, compensator.Config{
			Store: store, Sender: sender, Interval: time.Hour,
			Observers: []compensator.Observer{{RunEnd: func(f compensator.RunStats) { figures = append(figures, f) }}},
		})
		time.Sleep(time.Minute)
		r.drained(t)
		once(t, sender, ids)
		if len(figures) != 1 || figures[0].Acked != 100 || figures[0].Cause != nil {
			t.Errorf("runs: %+v, want one that sends 100", figures)
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
			Policy:    model.Policy{MaxAttempts: 5, MinDeadAge: model.None},
			Observers: []compensator.Observer{{RunSkipped: func(string) { skipped++ }}},
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
		r := start(t, compensator.Config{
			Store: store, Sender: sender, Policy: model.Policy{MaxAttempts: 5, MinDeadAge: model.None},
		})
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
					Locker: shared,
					Policy: model.Policy{BaseDelay: 10 * time.Second, Multiplier: 1, Jitter: model.None},
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
		check := func(kind string, ids []string, status model.Status, code model.CauseCode, attempts int, sent bool) {
			t.Helper()
			some := 0
			for _, id := range ids {
				row, ok := store.row(id)
				if !ok || row.Status != status || row.LastCode != code {
					t.Errorf("%s: row %+v (there: %v), want %s with %s", kind, row, ok, status, code)
				}
				if sender.times(id) > 0 && !sent {
					t.Errorf("%s: reached the sender", kind)
				}
				if row.Attempts >= attempts && sender.times(id) > 0 == sent {
					some++
				}
			}
			if want := len(ids); !sent && some != want || some == 0 { // of a broken exchange some only wait
				t.Errorf("%s: %d rows with %d attempts, sent: %v; want %d", kind, some, attempts, sent, want)
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
		perCode := map[model.CauseCode]int{}
		for _, a := range alerts.got() {
			perCode[a.Code] += a.Count
		}
		if want := map[model.CauseCode]int{
			model.CodeCorrupt: 10, model.CodeInvalid: 11, model.CodeNewerCodec: 10, model.CodeNotFound: 1,
		}; !maps.Equal(perCode, want) {
			t.Errorf("rows told by code: %v, want %v", perCode, want)
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
		var first atomic.Bool
		first.Store(true)
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
	panics *atomic.Bool // the next send panics
}

func (s *panickingSender) Send(send confirms.Send) {
	if s.panics.CompareAndSwap(true, false) {
		panic("sender panics")
	}
	s.fakeSender.Send(send)
}
