package gormstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// C65: a replay that is interrupted leaves every row DEAD or READY with its bytes, and
// another finishes it: nothing is lost, nothing is replayed twice.
func TestC65_InterruptedReplayKeepsEveryRow(t *testing.T) {
	t.Parallel()
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			testInterruptedReplay(t, migrated(t, server.dsn(dbtest.TB(t)), gormstore.Options{}))
		})
	}
}

func testInterruptedReplay(t *testing.T, s *gormstore.Store) {
	const rows = 1500 // three batches
	bodies := deadRows(t, s, rows)
	act := model.OperatorAct{
		Selection: model.Selection{Filter: model.Filter{Status: model.Dead}}, Actor: "somebody", Reason: "INC-7",
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	interrupted := act
	interrupted.Progress = func(int) { cancel() }
	first, err := s.Replay(ctx, interrupted, 0)
	if !errors.Is(err, context.Canceled) || first == 0 || first >= rows {
		t.Fatalf("interrupted after %d of %d rows with %v, want some and the context's error", first, rows, err)
	}
	counts := map[model.Status]int{}
	list, err := s.List(t.Context(), model.Filter{Limit: rows + 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		counts[r.Status]++
	}
	if counts[model.Ready] != first || counts[model.Dead] != rows-first {
		t.Errorf("after %d replays: %v, want the rest of %d DEAD", first, counts, rows)
	}
	second, err := s.Replay(t.Context(), act, 0)
	if err != nil || first+second != rows {
		t.Fatalf("the second replay did %d after %d, %v; want all %d", second, first, err, rows)
	}
	for claimed := 0; claimed < rows; {
		c, err := s.Claim(t.Context(), model.Claim{
			Service: "orders", Instance: "test", Lease: time.Minute, MaxRows: 500, MaxBytes: 1 << 20,
		})
		if err != nil || len(c.Rows) == 0 {
			t.Fatalf("claimed %d of %d rows: %v", claimed, rows, err)
		}
		claimed += len(c.Rows)
		for _, r := range c.Rows {
			if string(r.Payload) != bodies[r.ID] || r.Epoch != 1 {
				t.Fatalf("row %s: body %q of epoch %d, want %q of 1", r.ID, r.Payload, r.Epoch, bodies[r.ID])
			}
			delete(bodies, r.ID)
		}
	}
	if len(bodies) != 0 {
		t.Errorf("%d rows are gone", len(bodies))
	}
}

// deadRows stores rows that are DEAD and returns their bodies by id.
func deadRows(t *testing.T, s *gormstore.Store, n int) map[string]string {
	t.Helper()
	drafts, list, bodies := make([]model.Draft, n), make([]model.Settlement, n), map[string]string{}
	for i := range n {
		m := model.Message{ID: model.NewID(), Exchange: "ex", Body: fmt.Appendf(nil, "body\x00%d", i)}
		drafts[i] = model.Draft{TransMessage: model.NewTransMessage("orders", &m, false)}
		bodies[m.ID] = string(m.Body)
		list[i] = model.Settlement{
			ID: m.ID, Status: model.Dead, AttemptsDelta: 1, FailuresDelta: 1,
			Outcome: model.Outcome{Kind: model.Returned, Code: model.CodeNoRoute},
		}
	}
	for at := 0; at < n; at += 500 {
		if _, err := s.Insert(t.Context(), drafts[at:at+500]); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Settle(t.Context(), list[at:at+500]); err != nil {
			t.Fatal(err)
		}
	}
	return bodies
}
