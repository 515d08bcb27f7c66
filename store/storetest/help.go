package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/transmsg/transmsg/model"
)

const (
	svc      = "orders"
	instance = "host-1"
	patience = time.Minute
	hour     = time.Hour
)

// draft returns a row due now with a body; edit may change the message before it is
// encoded.
func draft(body string, edit ...func(*model.Message)) model.Draft {
	m := model.Message{
		ID: model.NewID(), Exchange: "ex", RoutingKey: "rk", Body: []byte(body),
		Properties: model.Properties{ContentType: "text/plain"},
	}
	for _, f := range edit {
		f(&m)
	}
	return model.Draft{TransMessage: model.NewTransMessage(svc, &m, false)}
}

func drafts(n int) []model.Draft {
	out := make([]model.Draft, n)
	for i := range out {
		out[i] = draft(fmt.Sprintf("body %d", i))
	}
	return out
}

func ids(rows []model.Draft) []string {
	out := make([]string, len(rows))
	for i := range rows {
		out[i] = rows[i].ID
	}
	return out
}

func bound(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func insert(t *testing.T, s Store, rows ...model.Draft) {
	t.Helper()
	got, err := s.Insert(bound(t), rows)
	if err != nil {
		t.Fatalf("insert: %v", err)
	}
	if want := slices.Repeat([]model.Stored{model.StoredNew}, len(rows)); !slices.Equal(got, want) {
		t.Fatalf("insert: got %v, want all new", got)
	}
}

// insertEach inserts rows one call after the other, so that they are due in order.
func insertEach(t *testing.T, s Store, rows []model.Draft) {
	t.Helper()
	for i := range rows {
		insert(t, s, rows[i])
	}
}

func show(t *testing.T, s Store, id string) (model.TransMessage, []model.Event) {
	t.Helper()
	row, events, err := s.Show(bound(t), id)
	if err != nil {
		t.Fatalf("show: %v", err)
	}
	return row, events
}

func exists(t *testing.T, s Store, id string) bool {
	t.Helper()
	got, err := s.ReadBack(bound(t), []string{id})
	if err != nil {
		t.Fatalf("read back: %v", err)
	}
	_, ok := got[id]
	return ok
}

func now(t *testing.T, s Store) int64 {
	t.Helper()
	ms, err := s.Now(bound(t))
	if err != nil {
		t.Fatalf("now: %v", err)
	}
	return ms
}

func claim(t *testing.T, s Store, edit ...func(*model.Claim)) model.Claimed {
	t.Helper()
	c := model.Claim{Service: svc, Instance: instance, Lease: hour, MaxRows: 100, MaxBytes: 1 << 20}
	for _, f := range edit {
		f(&c)
	}
	got, err := s.Claim(bound(t), c)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return got
}

// claimOne inserts one row and claims it.
func claimOne(t *testing.T, s Store) model.TransMessage {
	t.Helper()
	insert(t, s, draft("one"))
	got := claim(t, s)
	if len(got.Rows) != 1 {
		t.Fatalf("claim: got %d rows, want 1", len(got.Rows))
	}
	return got.Rows[0]
}

func settle(t *testing.T, s Store, list ...model.Settlement) []model.Settled {
	t.Helper()
	got, err := s.Settle(bound(t), list)
	if err != nil {
		t.Fatalf("settle: %v", err)
	}
	return got
}

// returned is the settlement of an unroutable send.
func returned(row model.TransMessage) model.Settlement {
	return model.Settlement{
		ID: row.ID, Epoch: row.Epoch, Version: row.Version,
		Status: model.Ready, Delay: hour, AttemptsDelta: 1, FailuresDelta: 1,
		Outcome:  model.Outcome{Kind: model.Returned, Code: model.CodeNoRoute, Text: "NO_ROUTE"},
		Instance: instance,
	}
}

func rowIDs(rows []model.TransMessage) []string {
	out := make([]string, len(rows))
	for i := range rows {
		out[i] = rows[i].ID
	}
	return out
}

func equal[T any](t *testing.T, what string, got, want T, opts ...cmp.Option) {
	t.Helper()
	if d := cmp.Diff(want, got, opts...); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// until asks again until ok, and fails when that takes too long.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("gave up waiting until %s", what)
		}
	}
}
