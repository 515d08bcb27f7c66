package storetest

import (
	"math"
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
)

// testNoTimeWraps gives the longest duration there is wherever the store adds one: it must
// mean a time far away, and never now or the past.
func testNoTimeWraps(t *testing.T, s Store) {
	const longest = time.Duration(math.MaxInt64)
	wait := draft("waits")
	wait.Delay = longest
	insert(t, s, wait)
	if rows := claim(t, s).Rows; len(rows) != 0 {
		t.Errorf("a row with the longest delay is due at %d", rows[0].NextAttemptAt)
	}
	state, err := s.ReadBack(bound(t), []string{wait.ID})
	if left := state[wait.ID].LeaseLeft; err != nil || left < longest-hour {
		t.Errorf("it is due in %v, %v", left, err)
	}
	row := claimOne(t, s)
	m := returned(row)
	m.Delay = longest
	settle(t, s, m)
	if rows := claim(t, s).Rows; len(rows) != 0 {
		t.Errorf("a row settled with the longest delay is due at %d", rows[0].NextAttemptAt)
	}
	d := dead(t, s, 1)
	found, err := s.ClaimDead(bound(t), model.DeadClaim{Instance: instance, Lease: hour, MaxRows: 10})
	if err != nil || len(found) != 1 {
		t.Fatalf("claim dead: %d rows, %v", len(found), err)
	}
	if _, err := s.MarkAlerted(bound(t), []model.RowKey{{ID: d[0].ID, Epoch: found[0].Epoch}}, longest); err != nil {
		t.Fatal(err)
	}
	later(t, s)
	if n, err := s.PurgeDead(bound(t), longest, 10); err != nil || n != 0 {
		t.Errorf("a retention for ever deleted %d DEAD rows, %v", n, err)
	}
	if n, err := s.PurgeEvents(bound(t), longest, 10); err != nil || n != 0 {
		t.Errorf("a retention for ever deleted %d events, %v", n, err)
	}
	if list, err := s.List(bound(t), model.Filter{OlderThan: longest}); err != nil || len(list) != 0 {
		t.Errorf("%d rows are older than the longest time, %v", len(list), err)
	}
	if again, err := s.ClaimDead(bound(t), model.DeadClaim{Instance: instance, Lease: hour, MaxRows: 10}); err != nil ||
		len(again) != 0 {
		t.Errorf("a row alerted for ever is owed again: %v, %v", again, err)
	}
}

// testFirstFailed: the first answered failure stays the first one, an unknown outcome is
// none, and a replay begins anew.
func testFirstFailed(t *testing.T, s Store) {
	row := claimOne(t, s)
	unknown := returned(row)
	unknown.AttemptsDelta, unknown.Delay = 0, 0
	unknown.Outcome = model.Outcome{Kind: model.Unknown, Code: model.CodeClosed}
	settle(t, s, unknown)
	if got, _ := show(t, s, row.ID); got.FirstFailedAt != 0 {
		t.Errorf("an outage counts as an answer: first failed at %d", got.FirstFailedAt)
	}
	var first int64
	for i := range 3 {
		row = claim(t, s).Rows[0]
		m := returned(row)
		m.Delay = 0
		if i == 2 {
			m.Status = model.Dead
		}
		settle(t, s, m)
		got, _ := show(t, s, row.ID)
		if i == 0 {
			first = got.FirstFailedAt
		}
		if first == 0 || got.FirstFailedAt != first {
			t.Errorf("after failure %d: first failed at %d, it was %d", i+1, got.FirstFailedAt, first)
		}
		later(t, s)
	}
	replay(t, s, act(allDead()), 0, 1)
	row = claim(t, s).Rows[0]
	if row.FirstFailedAt != 0 || row.FailingFor(row.UpdatedAt) != 0 {
		t.Errorf("after a replay: first failed at %d", row.FirstFailedAt)
	}
	settle(t, s, returned(row))
	if got, _ := show(t, s, row.ID); got.FirstFailedAt <= first || got.FirstFailedAt < got.ReplayedAt {
		t.Errorf("after a replay and a failure: first failed at %d, before at %d", got.FirstFailedAt, first)
	}
}

// exhaust settles a new row with used-up attempts; it stays READY, due after delay.
func exhaust(t *testing.T, s Store, delay time.Duration) model.TransMessage {
	t.Helper()
	row := claimOne(t, s)
	m := returned(row)
	m.Exhausted, m.Delay = true, delay
	settle(t, s, m)
	row, _ = show(t, s, row.ID)
	return row
}

func owed(t *testing.T, s Store) []model.DueAlert {
	t.Helper()
	list, err := s.ClaimAlerts(bound(t), model.DeadClaim{Instance: instance, Lease: hour, MaxRows: 100})
	if err != nil {
		t.Fatalf("claim alerts: %v", err)
	}
	return list
}

func markOwed(t *testing.T, s Store, next time.Duration, list ...model.DueAlert) {
	t.Helper()
	keys := make([]model.AlertKey, len(list))
	for i := range list {
		keys[i] = list[i].Key()
	}
	if n, err := s.MarkAlerts(bound(t), keys, next); err != nil || n != len(list) {
		t.Fatalf("mark alerts: %d, %v, want %d", n, err, len(list))
	}
}

// wantExhausted expects that one row is shown as exhausted wherever such rows are.
func wantExhausted(t *testing.T, s Store) {
	t.Helper()
	const want = 1
	stats, err := s.Stats(bound(t), svc)
	if err != nil || stats[0].Exhausted != want {
		t.Errorf("stats: %+v, %v, want %d exhausted", stats, err, want)
	}
	list, err := s.List(bound(t), model.Filter{Exhausted: true})
	if err != nil || len(list) != want {
		t.Errorf("%d rows are listed as exhausted, %v, want %d", len(list), err, want)
	}
	groups, err := s.Groups(bound(t), model.Filter{Exhausted: true, Status: model.Ready})
	var n int64
	for i := range groups {
		n += groups[i].Rows
	}
	if err != nil || n != want {
		t.Errorf("groups of exhausted rows: %+v, %v, want %d rows", groups, err, want)
	}
}

// testExhausted: the alert is owed from the settlement on, is somebody's while its lease
// lasts, comes back when that ended without a mark, and is told once in an epoch.
func testExhausted(t *testing.T, s Store) {
	insert(t, s, func() model.Draft { d := draft("other"); d.Delay = hour; return d }())
	row := exhaust(t, s, 0)
	wantExhausted(t, s)
	first := owed(t, s)
	if len(first) != 1 || first[0].Kind != model.AlertExhausted || first[0].Row.ID != row.ID ||
		first[0].Row.Attempts != 1 || first[0].Row.LastCode != model.CodeNoRoute || first[0].Since < row.CreatedAt {
		t.Fatalf("owed: %+v", first)
	}
	if again := owed(t, s); len(again) != 0 {
		t.Errorf("claimed by two: %+v", again)
	}
	markOwed(t, s, time.Millisecond, first...)
	until(t, "an alert that was not told is owed again", func() bool { return len(owed(t, s)) == 1 })
	markOwed(t, s, never, first...)
	row = claim(t, s).Rows[0]
	m := returned(row)
	m.Exhausted = true
	settle(t, s, m)
	if again := owed(t, s); len(again) != 0 {
		t.Errorf("one more failure of the same row is told anew: %+v", again)
	}
	wantExhausted(t, s)
}

// testReplayExhausted: rows whose attempts are used up can be replayed though they are READY, and
// those that are being sent stay as they are.
func testReplayExhausted(t *testing.T, s Store) {
	insert(t, s, func() model.Draft { d := draft("young"); d.Delay = hour; return d }())
	waiting, sending := exhaust(t, s, hour), exhaust(t, s, 0)
	claim(t, s, func(c *model.Claim) { c.Service = sending.Service })
	act := model.OperatorAct{Actor: actor, Selection: model.Selection{Filter: model.Filter{Exhausted: true}}}
	if n, err := s.Replay(bound(t), act, 0); err != nil || n != 1 {
		t.Fatalf("replayed %d, %v, want the one that nobody sends", n, err)
	}
	got, _ := show(t, s, waiting.ID)
	if got.Status != model.Ready || got.Attempts != 0 || got.Epoch != waiting.Epoch+1 ||
		got.NextAttemptAt > got.UpdatedAt {
		t.Errorf("after the replay: %+v", got)
	}
	if got, _ := show(t, s, sending.ID); got.Attempts != 1 || got.Epoch != sending.Epoch {
		t.Errorf("the one that is being sent: %+v", got)
	}
	wantExhausted(t, s)
}

// testOwedEnds: an acked, edited or dead row owes nothing any more, and what is left of it
// is swept.
func testOwedEnds(t *testing.T, s Store) {
	acked, edited, died, stays := exhaust(t, s, hour), exhaust(t, s, hour), exhaust(t, s, hour), exhaust(t, s, hour)
	if _, err := s.Delete(bound(t), []model.RowKey{{ID: acked.ID, Epoch: acked.Epoch}}); err != nil {
		t.Fatal(err)
	}
	exchange := "corrected"
	if err := s.Edit(bound(t), edited.ID, model.Edit{Exchange: &exchange, Actor: actor}); err != nil {
		t.Fatal(err)
	}
	m := returned(died)
	m.Status, m.Delay = model.Dead, 0
	equal(t, "settled", settle(t, s, m), []model.Settled{model.SettledDone})
	wantExhausted(t, s)
	list := owed(t, s)
	if len(list) != 1 || list[0].Row.ID != stays.ID {
		t.Errorf("owed: %+v, want that of %s alone", list, stays.ID)
	}
	markOwed(t, s, never, list...)
	if _, err := s.Delete(bound(t), []model.RowKey{{ID: stays.ID, Epoch: stays.Epoch}}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.SweepAlerts(bound(t), 10); err != nil || n != 1 {
		t.Errorf("swept %d, %v, want the told alert of the row that is gone", n, err)
	}
	if n, err := s.SweepAlerts(bound(t), 10); err != nil || n != 0 {
		t.Errorf("swept %d more, %v", n, err)
	}
}

// testLone: a row that was claimed often without a settle is claimed alone, which is counted
// and told; its former neighbours are not counted, and a settle ends it.
func testLone(t *testing.T, s Store) {
	loneFrom := func(c *model.Claim) { c.LoneFrom, c.Lease = 3, time.Millisecond }
	rows := drafts(3)
	insertEach(t, s, rows)
	reclaim := func() (c model.Claimed) {
		until(t, "the lease ends", func() bool { c = claim(t, s, loneFrom); return len(c.Rows) > 0 })
		return c
	}
	seen := map[string]int{}
	for seen[rows[0].ID] < 2 || seen[rows[1].ID] < 2 || seen[rows[2].ID] < 2 {
		for _, r := range reclaim().Rows {
			if seen[r.ID]++; r.LoneClaims != 0 {
				t.Fatalf("claim %d counts as alone: %+v", r.Claims, r)
			}
		}
	}
	for n := 1; n <= 3; n++ {
		c := reclaim()
		for c.Rows[0].ID != rows[0].ID {
			c = reclaim()
		}
		r := c.Rows[0]
		if len(c.Rows) != 1 || !c.More || r.LoneClaims != n || r.LoneSince == 0 {
			t.Fatalf("claim alone %d: %d rows, more %v, %+v", n, len(c.Rows), c.More, r)
		}
		told := 0
		for _, o := range owed(t, s) {
			if o.Kind != model.AlertCrashLoop {
				t.Errorf("owed: %+v", o)
			}
			if o.Row.ID == r.ID {
				told++
			}
		}
		if want := 0; n == 2 && told != 1 || n != 2 && told != want {
			t.Errorf("claim alone %d: %d alerts", n, told)
		}
	}
	row, _ := show(t, s, rows[0].ID)
	settle(t, s, model.Settlement{
		ID: row.ID, Version: row.Version, Status: model.Ready, Outcome: model.Outcome{Kind: model.Deferred},
	})
	if row, _ = show(t, s, row.ID); row.Claims != 0 || row.LoneClaims != 0 || row.LoneSince != 0 {
		t.Errorf("settled: %+v, want its claims forgotten", row)
	}
}
