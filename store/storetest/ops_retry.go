package storetest

import (
	"testing"

	"github.com/transmsg/transmsg/model"
)

// testRetry: of all rows those that wait after an answered send become due, once, with their
// counts kept; what is being sent, due, DEAD or waits for its NotBefore stays, the last unless it
// is asked for.
func testRetry(t *testing.T, s Store) {
	dead(t, s, 1)
	sending := claimOne(t, s)
	failed := returned(sending)
	failed.Delay = 0
	settle(t, s, failed)
	claim(t, s) // sent a second time at the moment
	waiting := claimOne(t, s)
	settle(t, s, returned(waiting))
	early, due := draft("early"), draft("due")
	early.Delay = hour
	insert(t, s, early, due)
	all := act(model.Filter{Status: model.Ready})
	p, err := s.Select(bound(t), model.Selection{Filter: model.Filter{Status: model.Ready, Waiting: true}})
	if err != nil || p.Rows != 1 || p.Samples[0].ID != waiting.ID {
		t.Errorf("would retry %+v, %v, want the one that waits", p, err)
	}
	before, history := show(t, s, waiting.ID)
	untouched := map[string]model.TransMessage{}
	for _, id := range []string{sending.ID, early.ID, due.ID} {
		untouched[id], _ = show(t, s, id)
	}
	for i, want := range []int{1, 0} {
		if n, err := s.Retry(bound(t), all, 0); err != nil || n != want {
			t.Fatalf("retry %d: %d rows, %v, want %d", i, n, err, want)
		}
	}
	got, events := show(t, s, waiting.ID)
	want := before
	want.Version, want.NextAttemptAt, want.UpdatedAt = before.Version+1, got.NextAttemptAt, got.UpdatedAt
	equal(t, "retried row", got, want)
	if got.NextAttemptAt > now(t, s) {
		t.Errorf("due at %d, now is %d", got.NextAttemptAt, now(t, s))
	}
	e := events[len(events)-1]
	e.At = 0
	equal(t, "event", e, model.Event{
		RowID: waiting.ID, Kind: model.EventRetry, Code: model.CodeNoRoute, Attempts: 1, Actor: actor,
		Text: `INC-7 [status="READY"]`,
	})
	if len(events) != len(history)+1 {
		t.Errorf("history %+v, want one more line than %+v", events, history)
	}
	for id, before := range untouched {
		after, _ := show(t, s, id)
		equal(t, "row that is not to be retried", after, before)
	}
	if n, err := s.Retry(bound(t), act(model.Filter{Status: model.Ready, Early: true}), 0); err != nil || n != 1 {
		t.Errorf("with early: %d rows, %v, want the one before its NotBefore", n, err)
	}
	if row, _ := show(t, s, early.ID); row.NextAttemptAt > now(t, s) {
		t.Errorf("the early row is due at %d, now is %d", row.NextAttemptAt, now(t, s))
	}
	if n, err := s.Retry(bound(t), act(model.Filter{Status: model.Dead}), 0); err == nil {
		t.Errorf("status DEAD is accepted: %d", n)
	}
	if n, err := s.Retry(bound(t), act(model.Filter{}), 0); err == nil {
		t.Errorf("no selection is accepted: %d", n)
	}
}

// testRetrySpread: with a rate the due times rise.
func testRetrySpread(t *testing.T, s Store) {
	const rows, rate = 40, 10
	insert(t, s, drafts(rows)...)
	list := make([]model.Settlement, 0, rows)
	for _, row := range claim(t, s).Rows {
		list = append(list, returned(row))
	}
	settle(t, s, list...)
	if n, err := s.Retry(bound(t), act(model.Filter{Code: model.CodeNoRoute}), rate); err != nil || n != rows {
		t.Fatalf("retried %d rows, %v, want %d", n, err, rows)
	}
	got, err := s.List(bound(t), model.Filter{Status: model.Ready, Limit: rows})
	if err != nil {
		t.Fatal(err)
	}
	const apart = 100 // ms between two rows at the full rate; PostgreSQL reads the clock for each time
	for i := 1; i < len(got); i++ {
		if d := got[i].NextAttemptAt - got[i-1].NextAttemptAt; d < apart-apart/4 {
			t.Errorf("row %d is due %d ms after the one before", i, d)
		}
	}
}
