package storetest

import (
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
)

// timed returns a row with this NotBefore, in milliseconds of the store's clock.
func timed(notBefore int64) model.Draft {
	return draft("waits", func(m *model.Message) { m.NotBefore = time.UnixMilli(notBefore) })
}

// testNotBefore: the instant is compared with the store's clock, wherever a due time is set.
func testNotBefore(t *testing.T, s Store) {
	end := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).UnixMilli()
	soon := now(t, s) + hour.Milliseconds()
	past, ahead, last, leased := timed(1), timed(soon), timed(end), timed(soon)
	leased.Delay, leased.ClaimedBy = time.Minute, instance
	insert(t, s, past, ahead, last, leased)
	got := claim(t, s)
	equal(t, "due now", rowIDs(got.Rows), []string{past.ID})
	for _, d := range []model.Draft{ahead, last, leased} {
		row, _ := show(t, s, d.ID)
		if row.NextAttemptAt != d.NotBefore || row.NotBefore != d.NotBefore {
			t.Errorf("not before %d: due at %d, kept as %d", d.NotBefore, row.NextAttemptAt, row.NotBefore)
		}
	}
	if got := got.Rows[0]; got.NotBefore != 1 || got.NextAttemptAt != got.CreatedAt {
		t.Errorf("of the past: due at %d, stored at %d", got.NextAttemptAt, got.CreatedAt)
	}

	// A row that is handed back waits on.
	row, _ := show(t, s, leased.ID)
	settle(t, s, model.Settlement{
		ID: row.ID, Epoch: row.Epoch, Status: model.Ready,
		Outcome: model.Outcome{Kind: model.Deferred, Code: model.CodeNotSent},
	})
	if row, _ = show(t, s, leased.ID); row.NextAttemptAt != soon || row.ClaimedBy != "" {
		t.Errorf("handed back: due at %d of %q, want at %d", row.NextAttemptAt, row.ClaimedBy, soon)
	}
	if rows := claim(t, s).Rows; len(rows) != 0 {
		t.Errorf("claimed early: %v", rowIDs(rows))
	}
}

// testNotBeforeIsKept: what operators do to a row that waits does not send it early.
func testNotBeforeIsKept(t *testing.T, s Store) {
	soon := now(t, s) + hour.Milliseconds()
	d := timed(soon)
	d.ClaimedBy = instance
	insert(t, s, d)
	row, _ := show(t, s, d.ID)
	m := returned(row)
	m.Status, m.Delay = model.Dead, 0
	settle(t, s, m)
	replay(t, s, act(allDead()), 0, 1)
	row, _ = show(t, s, d.ID)
	if row.NextAttemptAt != soon {
		t.Errorf("replayed: due at %d, want at %d", row.NextAttemptAt, soon)
	}
	row.ClaimedBy = instance // an export of a row that is leased
	discard(t, s, act(model.Filter{Status: model.Ready}, d.ID), 1)
	if n, err := s.Import(bound(t), []model.TransMessage{row}, actor); err != nil || n != 1 {
		t.Fatalf("imported %d, %v", n, err)
	}
	if row, _ = show(t, s, d.ID); row.NextAttemptAt != soon || row.NotBefore != soon {
		t.Errorf("imported: due at %d, not before %d, want at %d", row.NextAttemptAt, row.NotBefore, soon)
	}
	if rows := claim(t, s).Rows; len(rows) != 0 {
		t.Errorf("claimed early: %v", rowIDs(rows))
	}
}
