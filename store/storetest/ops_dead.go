package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
)

// testDeadIsTold: a row that dies is claimed for its alert at once, can be listed, and
// replayed or discarded; each death owes one alert.
func testDeadIsTold(t *testing.T, s Store) {
	rows := dead(t, s, 3)
	got := claimDead(t, s, instance, hour, 100)
	if len(got) != 3 {
		t.Fatalf("claimed %d DEAD rows, want 3", len(got))
	}
	for _, r := range got {
		stored, events := show(t, s, r.ID)
		if stored.Payload = nil; r.Status != model.Dead || r.LastCode != model.CodeNoRoute || r.Attempts != 1 ||
			r.Version != 2 || r.ClaimedBy != instance || len(events) != 1 || events[0].Kind != model.EventDead {
			t.Errorf("claimed %+v with history %+v", r, events)
		}
		equal(t, "claimed row", r, stored)
	}
	if again := claimDead(t, s, "host-2", hour, 100); len(again) != 0 {
		t.Errorf("%d rows were claimed for a second alert within the lease", len(again))
	}
	if n, err := s.MarkAlerted(bound(t), rowKeys(got), never); err != nil || n != 3 {
		t.Fatalf("mark alerted: %d, %v", n, err)
	}
	if st, err := s.Stats(bound(t), svc); err != nil || st[0].Dead != 3 {
		t.Errorf("stats %+v, %v, want 3 DEAD", st, err)
	}
	replay(t, s, act(model.Filter{}, rows[0].ID), 0, 1)
	discard(t, s, act(model.Filter{}, rows[1].ID), 1)
	// Dead once more: that is another alert, which a mark of the first must not cover.
	row := claim(t, s).Rows[0]
	m := returned(row)
	m.Status, m.Delay = model.Dead, 0
	settle(t, s, m)
	if n, err := s.MarkAlerted(bound(t), rowKeys(got[:1]), never); err != nil || n != 0 {
		t.Errorf("the old mark met %d rows, %v", n, err)
	}
	if again := claimDead(t, s, instance, hour, 100); len(again) != 1 || again[0].ID != row.ID {
		t.Errorf("claimed %v, want the row that died again", rowIDs(again))
	}
}

func testClaimDeadSplit(t *testing.T, s Store) {
	const rows = 300
	dead(t, s, rows)
	foreign := []model.Draft{draft("foreign")}
	foreign[0].Service = "zz"
	kill(t, s, foreign, model.Outcome{Kind: model.Nacked, Code: model.CodeNack})
	insert(t, s, draft("ready"))
	var mu sync.Mutex
	seen := map[string]string{}
	var wg sync.WaitGroup
	for _, who := range []string{"host-1", "host-2"} {
		wg.Go(func() {
			for {
				got, err := s.ClaimDead(t.Context(), model.DeadClaim{Instance: who, Lease: hour, MaxRows: 40})
				if err != nil {
					t.Errorf("claim dead: %v", err)
					return
				}
				mu.Lock()
				for _, r := range got {
					if seen[r.ID] != "" {
						t.Errorf("row %s was claimed by %s and %s", r.ID, seen[r.ID], who)
					}
					seen[r.ID] = who
				}
				done := len(seen) == rows+1 || t.Failed()
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	wg.Wait()
	if len(seen) != rows+1 || seen[foreign[0].ID] == "" {
		t.Errorf("claimed %d rows, want %d of two services", len(seen), rows+1)
	}
	for _, c := range []model.DeadClaim{{Lease: hour}, {MaxRows: 5001, Lease: hour}, {MaxRows: 1}} {
		if _, err := s.ClaimDead(bound(t), c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

// testClaimDeadAgain: the rows of a claimer that ended before the alert come back, and so
// do marked ones when their time has passed.
func testClaimDeadAgain(t *testing.T, s Store) {
	row := dead(t, s, 1)[0]
	if got := claimDead(t, s, "ends", 5*time.Millisecond, 10); len(got) != 1 {
		t.Fatalf("claimed %d", len(got))
	}
	var got []model.TransMessage
	until(t, "the lease ends", func() bool {
		got = claimDead(t, s, instance, hour, 10)
		return len(got) > 0
	})
	if got[0].ID != row.ID || got[0].ClaimedBy != instance {
		t.Errorf("claimed %+v", got)
	}
	if n, err := s.MarkAlerted(bound(t), rowKeys(got), 5*time.Millisecond); err != nil || n != 1 {
		t.Fatalf("mark: %d, %v", n, err)
	}
	until(t, "the alert is owed again", func() bool { return len(claimDead(t, s, instance, hour, 10)) > 0 })
	if _, err := s.MarkAlerted(bound(t), rowKeys(got), 0); err == nil {
		t.Error("a mark for no time is accepted")
	}
}

func testPurgeDead(t *testing.T, s Store) {
	const told = 1100 // more than two batches
	rows := dead(t, s, told)
	alerted(t, s)
	later(t, s)
	owed := dead(t, s, 1)[0]
	ready := draft("ready")
	insert(t, s, ready)
	if n, err := s.PurgeDead(bound(t), hour, 10_000); err != nil || n != 0 {
		t.Fatalf("purge of young rows: %d, %v", n, err)
	}
	stop := keepInserting(t, s)
	if n, err := s.PurgeDead(bound(t), time.Millisecond, 700); err != nil || n != 700 {
		t.Errorf("purge of at most 700: %d, %v", n, err)
	}
	if n, err := s.PurgeDead(bound(t), time.Millisecond, 10_000); err != nil || n != told-700 {
		t.Errorf("purge of the rest: %d, %v", n, err)
	}
	if stop() == 0 {
		t.Error("nothing was inserted meanwhile")
	}
	left, err := s.ReadBack(bound(t), append(ids(rows), owed.ID, ready.ID))
	if err != nil || len(left) != 2 {
		t.Errorf("%d rows are left, %v, want the READY one and the one whose alert is owed", len(left), err)
	}
	if e := lastEvent(t, s, rows[0].ID); e.Kind != model.EventPurge {
		t.Errorf("last event %+v, want purge", e)
	}
	if _, err := s.PurgeDead(bound(t), 0, 1); err == nil {
		t.Error("an age of zero is accepted")
	}
}

// testPurgeDeadAge: retention counts from when a row died, not from when it was stored.
func testPurgeDeadAge(t *testing.T, s Store) {
	old := now(t, s) - 2*hour.Milliseconds()
	rows := make([]model.TransMessage, 2)
	for i := range rows {
		rows[i] = draft("dead").TransMessage
		rows[i].Status, rows[i].CreatedAt, rows[i].UpdatedAt = model.Dead, old, old
		rows[i].NextAttemptAt = now(t, s) + never.Milliseconds() // its alert was accepted
	}
	rows[1].UpdatedAt = now(t, s)
	if n, err := s.Import(bound(t), rows, actor); err != nil || n != 2 {
		t.Fatalf("import: %d, %v", n, err)
	}
	if n, err := s.PurgeDead(bound(t), hour, 100); err != nil || n != 1 {
		t.Errorf("purged %d rows, %v, want 1", n, err)
	}
	if exists(t, s, rows[0].ID) || !exists(t, s, rows[1].ID) {
		t.Error("want the row that died long ago purged, and the one that died now kept")
	}
}

func testPurgeEvents(t *testing.T, s Store) {
	rows := dead(t, s, 1100)
	later(t, s)
	if n, err := s.PurgeEvents(bound(t), hour, 10_000); err != nil || n != 0 {
		t.Fatalf("purge of young events: %d, %v", n, err)
	}
	stop := keepInserting(t, s)
	if n, err := s.PurgeEvents(bound(t), time.Millisecond, 700); err != nil || n != 700 {
		t.Errorf("purge of at most 700: %d, %v", n, err)
	}
	if n, err := s.PurgeEvents(bound(t), time.Millisecond, 10_000); err != nil || n != 400 {
		t.Errorf("purge of the rest: %d, %v", n, err)
	}
	stop()
	if _, events := show(t, s, rows[0].ID); len(events) != 0 {
		t.Errorf("history %+v is left", events)
	}
	for _, c := range []struct {
		age time.Duration
		max int
	}{{0, 1}, {hour, 0}} {
		if _, err := s.PurgeEvents(bound(t), c.age, c.max); err == nil {
			t.Errorf("age %s, max %d is accepted", c.age, c.max)
		}
	}
}

// keepInserting stores rows until its result is called, which returns how many. At least
// one is stored before it returns.
func keepInserting(t *testing.T, s Store) (stop func() int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var n atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil && i < 100_000; i++ {
			if _, err := s.Insert(t.Context(), []model.Draft{draft(fmt.Sprint(i))}); err != nil {
				t.Errorf("insert: %v", err)
				return
			}
			n.Add(1)
		}
	})
	until(t, "a row is stored", func() bool { return n.Load() > 0 || t.Failed() })
	return func() int64 {
		cancel()
		wg.Wait()
		return n.Load()
	}
}
