package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/transmsg/transmsg/model"
)

func testSettleReady(t *testing.T, s Store) {
	row := claimOne(t, s)
	before := now(t, s)
	m := returned(row)
	m.Outcome.Text = "NO_ROUTE \xff\x00 " + strings.Repeat("ü", model.MaxErrorText)
	equal(t, "settled", settle(t, s, m), []model.Settled{model.SettledDone})
	got, events := show(t, s, row.ID)
	want := row
	want.Version, want.Attempts, want.Failures, want.Claims, want.ClaimedBy = 2, 1, 1, 0, ""
	want.LastCode, want.LastError = model.CodeNoRoute, model.CleanText(m.Outcome.Text)
	want.NextAttemptAt, want.UpdatedAt, want.FirstFailedAt = got.NextAttemptAt, got.UpdatedAt, got.FirstFailedAt
	equal(t, "row", got, want)
	if got.FirstFailedAt < before || got.FirstFailedAt > got.UpdatedAt {
		t.Errorf("first failed at %d, settled at %d, now was %d", got.FirstFailedAt, got.UpdatedAt, before)
	}
	if got.NextAttemptAt < before+hour.Milliseconds() || got.UpdatedAt < before {
		t.Errorf("next attempt %d, updated %d, now was %d", got.NextAttemptAt, got.UpdatedAt, before)
	}
	equal(t, "events", events, []model.Event{{
		RowID: row.ID, At: got.UpdatedAt, Kind: "returned", Code: model.CodeNoRoute,
		Text: want.LastError, Attempts: 1, Instance: instance,
	}}, cmpopts.IgnoreFields(model.Event{}, "At"))
	if events[0].At < before {
		t.Errorf("event at %d, before %d", events[0].At, before)
	}
}

func testSettleDead(t *testing.T, s Store) {
	row := claimOne(t, s)
	m := returned(row)
	m.Status, m.Delay = model.Dead, 0
	equal(t, "settled", settle(t, s, m), []model.Settled{model.SettledDone})
	got, events := show(t, s, row.ID)
	if got.Status != model.Dead || got.LastCode != model.CodeNoRoute || got.NextAttemptAt > now(t, s) {
		t.Errorf("row: %+v, want DEAD with its cause, to be looked at now", got)
	}
	if len(events) != 1 || events[0].Kind != "dead" || events[0].Code != model.CodeNoRoute {
		t.Errorf("events: %+v, want one of kind dead", events)
	}
	if c := claim(t, s); len(c.Rows) != 0 {
		t.Error("a DEAD row was claimed")
	}
}

func testSettleDeferred(t *testing.T, s Store) {
	row := claimOne(t, s)
	m := returned(row)
	m.Delay = 0
	settle(t, s, m)
	row = claim(t, s).Rows[0]
	equal(t, "settled", settle(t, s, model.Settlement{
		ID: row.ID, Version: row.Version, Status: model.Ready, Instance: instance,
		Outcome: model.Outcome{Kind: model.Deferred, Code: model.CodeNotSent, Text: "gate closed"},
	}), []model.Settled{model.SettledDone})
	got, events := show(t, s, row.ID)
	if got.LastCode != model.CodeNoRoute || got.LastError != "NO_ROUTE" || got.Attempts != 1 || got.Failures != 1 ||
		got.Claims != 0 || got.ClaimedBy != "" || got.Version != row.Version+1 {
		t.Errorf("row handed back: %+v", got)
	}
	if len(events) != 1 {
		t.Errorf("%d events, want only the one of the send", len(events))
	}
	c := claim(t, s)
	if len(c.Rows) != 1 {
		t.Fatal("a row handed back is not due")
	}
	// A row that waits for its broken exchange says so, without being charged.
	equal(t, "settled", settle(t, s, model.Settlement{
		ID: row.ID, Version: c.Rows[0].Version, Status: model.Ready, Delay: hour, Instance: instance,
		Outcome: model.Outcome{Kind: model.Deferred, Code: model.CodeAccessRefused, Text: "waits"},
	}), []model.Settled{model.SettledDone})
	got, events = show(t, s, row.ID)
	if got.LastCode != model.CodeAccessRefused || got.LastError != "waits" || got.Attempts != 1 || got.Failures != 1 ||
		len(events) != 1 || len(claim(t, s).Rows) != 0 {
		t.Errorf("row that waits: %+v with %d events", got, len(events))
	}
}

func testSettleFence(t *testing.T, s Store) {
	row := claimOne(t, s)
	stale, gone := returned(row), returned(row)
	stale.Version--
	gone.ID = model.NewID()
	got := settle(t, s, stale, gone, returned(row), returned(row))
	equal(t, "settled", got, []model.Settled{
		model.SettledFenced, model.SettledGone, model.SettledDone, model.SettledFenced,
	})
	after, events := show(t, s, row.ID)
	if after.Version != row.Version+1 || after.Attempts != 1 || len(events) != 1 {
		t.Errorf("row version %d, attempts %d, %d events: more than one settlement was written",
			after.Version, after.Attempts, len(events))
	}
}

// testSettleMany settles more rows than one statement takes, all differently.
func testSettleMany(t *testing.T, s Store) {
	rows := drafts(600)
	insert(t, s, rows...)
	list := make([]model.Settlement, len(rows))
	for i := range rows {
		list[i] = returned(rows[i].TransMessage)
		list[i].Delay = hour + time.Duration(i)*time.Second
		list[i].AttemptsDelta = i % 2
		switch i % 3 {
		case 1:
			list[i].Outcome = model.Outcome{Kind: model.Unknown, Code: model.CodeClosed, Text: "it's \\ closed"}
		case 2:
			list[i].Status = model.Dead
		}
	}
	for i, f := range settle(t, s, list...) {
		if f != model.SettledDone {
			t.Fatalf("settlement %d: got %v, want done", i, f)
		}
	}
	for i := 0; i < len(rows); i += 47 {
		got, events := show(t, s, rows[i].ID)
		cause := model.Outcome{Kind: list[i].Outcome.Kind, Code: got.LastCode, Text: got.LastError}
		if got.Status != list[i].Status || cause != list[i].Outcome ||
			got.Attempts != i%2 || got.Failures != 1 || len(events) != 1 {
			t.Errorf("row %d: got %+v with %d events, settled by %+v", i, got, len(events), list[i])
		}
		if d := got.NextAttemptAt - got.UpdatedAt; d != list[i].Delay.Milliseconds() {
			t.Errorf("row %d: delay %d ms, want %s", i, d, list[i].Delay)
		}
	}
}

// testUnchanged settles a row to the values that it has: only version and the fence
// tell, on every store.
func testUnchanged(t *testing.T, s Store) {
	row := claimOne(t, s)
	for i := range 3 {
		m := model.Settlement{
			ID: row.ID, Version: row.Version + i, Status: model.Ready, Outcome: model.Outcome{Kind: model.Deferred},
		}
		equal(t, "settled to equal values", settle(t, s, m), []model.Settled{model.SettledDone})
		equal(t, "settled again", settle(t, s, m), []model.Settled{model.SettledFenced})
	}
}

func testDelete(t *testing.T, s Store) {
	rows := drafts(600)
	insert(t, s, rows...)
	keys := make([]model.RowKey, 0, len(rows)+2)
	for i := range rows {
		keys = append(keys, model.RowKey{ID: rows[len(rows)-1-i].ID})
	}
	keys[0].Epoch = 1 // was replayed since: not ours to delete
	keys = append(keys, model.RowKey{ID: model.NewID()})
	n, err := s.Delete(bound(t), keys)
	if err != nil || n != len(rows)-1 {
		t.Fatalf("deleted %d, %v, want %d", n, err, len(rows)-1)
	}
	left, err := s.ReadBack(bound(t), ids(rows))
	if err != nil || len(left) != 1 || !exists(t, s, keys[0].ID) {
		t.Errorf("left %v, %v, want the row of another epoch", left, err)
	}
	if n, err := s.Delete(bound(t), keys); err != nil || n != 0 {
		t.Errorf("second delete: %d, %v, want 0", n, err)
	}
	if n, err := s.Delete(bound(t), nil); err != nil || n != 0 {
		t.Errorf("delete of nothing: %d, %v", n, err)
	}
}

func testRestore(t *testing.T, s Store) {
	row := claimOne(t, s)
	row.Attempts, row.Failures, row.Epoch = 2, 3, 1
	present := draft("present")
	insert(t, s, present)
	if n, err := s.Delete(bound(t), []model.RowKey{{ID: row.ID}}); err != nil || n != 1 {
		t.Fatalf("delete: %d, %v", n, err)
	}
	m := returned(row)
	equal(t, "settled", settle(t, s, m), []model.Settled{model.SettledGone})
	got, err := s.Restore(bound(t), []model.TransMessage{row, present.TransMessage},
		[]model.Settlement{m, returned(present.TransMessage)})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "restored", got, []bool{true, false})
	back, events := show(t, s, row.ID)
	want := row
	want.Version, want.Claims, want.ClaimedBy, want.Attempts, want.Failures = row.Version+1, 0, "", 3, 4
	want.LastCode, want.LastError = m.Outcome.Code, m.Outcome.Text
	want.NextAttemptAt, want.UpdatedAt, want.FirstFailedAt = back.NextAttemptAt, back.UpdatedAt, back.FirstFailedAt
	if back.FirstFailedAt != back.UpdatedAt {
		t.Errorf("restored at %d with a first failure at %d", back.UpdatedAt, back.FirstFailedAt)
	}
	equal(t, "restored row", back, want)
	if d := back.NextAttemptAt - back.UpdatedAt; d != hour.Milliseconds() {
		t.Errorf("restored with a delay of %d ms, want an hour", d)
	}
	if len(events) != 2 || events[0].Kind != "returned" || events[1].Kind != "restore" {
		t.Errorf("events: %+v, want returned and restore", events)
	}
	again, err := s.Restore(bound(t), []model.TransMessage{row}, []model.Settlement{m})
	if err != nil || again[0] {
		t.Errorf("restored again: %v, %v", again, err)
	}
}
