package storetest

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/transmsg/transmsg/model"
)

func testReplay(t *testing.T, s Store) {
	row := dead(t, s, 1, func(m *model.Message) { m.Key = "order-7" })[0]
	before, history := show(t, s, row.ID)
	later(t, s)
	replay(t, s, act(model.Filter{Service: svc, Code: model.CodeNoRoute}), 0, 1)
	got, events := show(t, s, row.ID)
	want := before
	want.Status, want.Attempts, want.Failures, want.Claims = model.Ready, 0, 0, 0
	want.Version, want.Epoch = before.Version+1, before.Epoch+1
	// PostgreSQL looks at its clock for each of them.
	for _, at := range []int64{got.NextAttemptAt, got.UpdatedAt} {
		if d := at - got.ReplayedAt; d < -1000 || d > 1000 {
			t.Errorf("due at %d and updated at %d, replayed at %d", got.NextAttemptAt, got.UpdatedAt, got.ReplayedAt)
		}
	}
	want.FirstFailedAt = 0
	want.NextAttemptAt, want.UpdatedAt, want.ReplayedAt = got.NextAttemptAt, got.UpdatedAt, got.ReplayedAt
	equal(t, "replayed row", got, want)
	if got.ReplayedAt <= before.UpdatedAt || got.ReplayedAt > now(t, s) {
		t.Errorf("replayed at %d, died at %d", got.ReplayedAt, before.UpdatedAt)
	}
	if len(events) != len(history)+1 {
		t.Fatalf("history %+v, want one more line than %+v", events, history)
	}
	e := events[len(events)-1]
	e.At = 0
	equal(t, "event", e, model.Event{
		RowID: row.ID, Kind: model.EventReplay, Code: model.CodeNoRoute, Actor: actor,
		Text: `INC-7 [service="orders" status="DEAD" code="312"]`,
	})
	c := claim(t, s)
	if len(c.Rows) != 1 || c.Rows[0].ReplayedAt != got.ReplayedAt || c.Rows[0].Epoch != 1 {
		t.Fatalf("claimed %+v, want the replayed row with the time of its replay", c.Rows)
	}
	replay(t, s, act(model.Filter{}, row.ID), 0, 0) // READY: passed over
	if n, err := s.Delete(bound(t), []model.RowKey{{ID: row.ID, Epoch: 0}}); err != nil || n != 0 {
		t.Errorf("a late ack of the send before the replay deleted %d rows, %v", n, err)
	}
}

// testReplayTwice has callers replay the same rows at the same time, by filter, while
// another replays them by id: every row once, whoever gets it.
func testReplayTwice(t *testing.T, s Store) {
	const rows, callers = 1000, 4
	list := dead(t, s, rows)
	var sum, steps atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		a := act(allDead())
		if i == 0 {
			a = act(model.Filter{}, ids(list)...)
		}
		a.Progress = func(int) { steps.Add(1) }
		wg.Go(func() {
			n, err := s.Replay(t.Context(), a, 0)
			if err != nil {
				t.Errorf("replay: %v", err)
			}
			sum.Add(int64(n))
		})
	}
	wg.Wait()
	if sum.Load() != rows || steps.Load() < 2 {
		t.Errorf("the callers replayed %d rows in %d steps, want %d in at least 2", sum.Load(), steps.Load(), rows)
	}
	for i := 0; i < rows; i += 97 {
		got, events := show(t, s, list[i].ID)
		if got.Epoch != 1 || got.Version != 2 || len(events) != 2 {
			t.Errorf("row %d: epoch %d, version %d, %d events: replayed more than once", i, got.Epoch,
				got.Version, len(events))
		}
	}
	replay(t, s, act(allDead()), 0, 0)
	seen := map[string]bool{}
	for {
		c := claim(t, s, func(c *model.Claim) { c.MaxRows = 400 })
		for _, r := range c.Rows {
			seen[r.ID] = true
		}
		if len(c.Rows) == 0 {
			break
		}
	}
	if len(seen) != rows {
		t.Errorf("%d rows are to be sent, want %d", len(seen), rows)
	}
}

// testReplaySpread: due times rise, and no second holds more rows than the rate.
func testReplaySpread(t *testing.T, s Store) {
	const rows, rate = 600, 20
	dead(t, s, rows)
	replay(t, s, act(allDead()), rate, rows)
	list, err := s.List(bound(t), model.Filter{Status: model.Ready, Limit: rows})
	if err != nil || len(list) != rows {
		t.Fatalf("%d rows, %v", len(list), err)
	}
	perSecond := map[int64]int{}
	// PostgreSQL reads the clock for each of the two times. Less than the time between two rows:
	const apart = 40
	last := int64(-apart)
	first := list[0].ReplayedAt
	for _, r := range list {
		wait := r.NextAttemptAt - r.ReplayedAt
		if wait < last-apart {
			t.Fatalf("due after %d ms, behind a row that is due after %d ms", wait, last)
		}
		last = max(wait, 0)
		perSecond[wait/1000]++
	}
	if d := list[0].NextAttemptAt - first; d < -apart || d > apart {
		t.Error("the first row is not due at once")
	}
	for second, n := range perSecond {
		if n > rate+1 {
			t.Errorf("%d rows are due in second %d, the rate is %d", n, second, rate)
		}
	}
	if perSecond[0] > rate/4 || perSecond[40] < rate-1 {
		t.Errorf("%d rows in the first second and %d in the 40th, want a ramp up to %d", perSecond[0],
			perSecond[40], rate)
	}
}

func testReplayRefusals(t *testing.T, s Store) {
	dead(t, s, 3)
	for name, a := range map[string]model.OperatorAct{
		"no selection": act(model.Filter{}),
		"status READY": act(model.Filter{Status: model.Ready}),
		"no actor":     {Selection: model.Selection{Filter: allDead()}},
		"long actor":   {Selection: model.Selection{Filter: allDead()}, Actor: strings.Repeat("x", 65)},
		"max":          {Selection: model.Selection{Filter: allDead(), Max: -1}, Actor: actor},
	} {
		if n, err := s.Replay(bound(t), a, 0); err == nil || n != 0 {
			t.Errorf("replay, %s: %d, %v, want it refused", name, n, err)
		}
		if name == "status READY" {
			continue
		}
		if n, err := s.Discard(bound(t), a); err == nil || n != 0 {
			t.Errorf("discard, %s: %d, %v, want it refused", name, n, err)
		}
	}
	if n, err := s.Replay(bound(t), act(allDead()), -1); err == nil {
		t.Errorf("a rate of -1 is accepted: %d", n)
	}
	capped := act(allDead())
	capped.Max = 2
	replay(t, s, capped, 0, 2)
	replay(t, s, capped, 0, 1)
}

func testDiscard(t *testing.T, s Store) {
	rows := dead(t, s, 2)
	ready := draft("ready")
	insert(t, s, ready)
	gone, _ := show(t, s, rows[0].ID)
	discard(t, s, act(model.Filter{}, rows[0].ID, ready.ID), 1)
	if exists(t, s, gone.ID) || !exists(t, s, ready.ID) || !exists(t, s, rows[1].ID) {
		t.Fatal("want exactly the DEAD row of the two named discarded")
	}
	e := lastEvent(t, s, gone.ID)
	if e.Kind != model.EventDiscard || e.Actor != actor || !strings.Contains(e.Text, "2 ids") {
		t.Errorf("event %+v, want discard with actor and selection", e)
	}
	// A late return of an earlier send must not bring it back.
	m := returned(gone)
	equal(t, "settled", settle(t, s, m), []model.Settled{model.SettledGone})
	if got, err := s.Restore(bound(t), []model.TransMessage{gone}, []model.Settlement{m}); err != nil || got[0] {
		t.Errorf("restore of a discarded row: %v, %v, want it left out", got, err)
	}
	later(t, s)
	// The id may be published again; then the old discard says nothing any more.
	insert(t, s, rows[0])
	again, _ := show(t, s, gone.ID)
	if n, err := s.Delete(bound(t), []model.RowKey{{ID: gone.ID}}); err != nil || n != 1 {
		t.Fatalf("delete: %d, %v", n, err)
	}
	got, err := s.Restore(bound(t), []model.TransMessage{again}, []model.Settlement{returned(again)})
	if err != nil || !got[0] {
		t.Errorf("restore of a row stored after the discard: %v, %v", got, err)
	}
}

// testDiscardReady: READY rows only where the filter says so, and not those that are
// being sent, by a claimer or by their publisher.
func testDiscardReady(t *testing.T, s Store) {
	claimed := claimOne(t, s)
	published, waiting, due := draft("published"), draft("waiting"), draft("due")
	published.Delay, published.ClaimedBy, waiting.Delay = hour, instance, hour
	insert(t, s, published, waiting, due)
	died := dead(t, s, 1)[0]
	p, err := s.Select(bound(t), model.Selection{Filter: model.Filter{Status: model.Ready}})
	if err != nil || p.Rows != 4 || p.Leased != 2 {
		t.Errorf("preview %+v, %v, want 4 rows of which 2 are being sent", p, err)
	}
	discard(t, s, act(model.Filter{Status: model.Ready}), 2)
	for id, want := range map[string]bool{
		claimed.ID: true, published.ID: true, waiting.ID: false, due.ID: false, died.ID: true,
	} {
		if exists(t, s, id) != want {
			t.Errorf("row %s: exists %t, want %t", id, !want, want)
		}
	}
}
