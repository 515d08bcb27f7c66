package gormstore_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// TestPreparedInsertsKeepEveryByte: rows of each size of a statement, the first as a text
// and the later ones prepared, come back as they were given.
func TestPreparedInsertsKeepEveryByte(t *testing.T) {
	t.Parallel()
	s := migrated(t, servers[0].dsn(t), gormstore.Options{})
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	bodies := [][]byte{
		{}, every, []byte("\x00'\"\\%?;--\xff\xfe"), []byte("\U0001F600\u202E"), bytes.Repeat(every, 400), // long data
	}
	want := map[string][]byte{}
	for _, n := range []int{1, 2, 5, 100} {
		for range 3 {
			rows := make([]model.Draft, n)
			for i := range rows {
				rows[i] = benchDraft(bodies[i%len(bodies)])
				rows[i].Delay = 0
				rows[i].MessageKey = "key '\\ \U0001F600"
				want[rows[i].ID] = rows[i].Payload
			}
			got, err := s.Insert(t.Context(), rows)
			if err != nil || slices.ContainsFunc(got, func(f model.Stored) bool { return f != model.StoredNew }) {
				t.Fatalf("%d rows: %v, %v", n, got, err)
			}
		}
	}
	if got := s.Prepared(); !slices.Equal(got, []int{1, 2, 5, 100}) {
		t.Errorf("statements are prepared for %v rows, want each of the sizes", got)
	}
	claimed, err := s.Claim(t.Context(), model.Claim{
		Service: benchDraft(nil).Service, Instance: "test", Lease: time.Minute, MaxRows: 5000, MaxBytes: 1 << 30,
	})
	if err != nil || len(claimed.Rows) != len(want) {
		t.Fatalf("claimed %d rows, %v, want %d", len(claimed.Rows), err, len(want))
	}
	for _, r := range claimed.Rows {
		if !bytes.Equal(r.Payload, want[r.ID]) || r.MessageKey != "key '\\ \U0001F600" {
			t.Errorf("%s came back as %.60q with key %q, want %.60q", r.ID, r.Payload, r.MessageKey, want[r.ID])
		}
	}
}

// testNothingPrepared: a server that prepares no more statements still takes rows.
func testNothingPrepared(t *testing.T, p *private) {
	t.Helper()
	if err := p.Exec(t.Context(), "SET GLOBAL max_prepared_stmt_count = 0"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		repeat(t, p.store, benchDraft(nil), model.StoredNew)
	}
	if got := p.store.Prepared(); len(got) != 0 {
		t.Errorf("statements are prepared for %v rows, want none", got)
	}
	if err := p.Exec(t.Context(), "SET GLOBAL max_prepared_stmt_count = 16382"); err != nil {
		t.Fatal(err)
	}
}

// testPreparedReadOnly: the connection that answered read only is not kept for the next INSERT.
func testPreparedReadOnly(t *testing.T, p *private) {
	t.Helper()
	repeat(t, p.store, benchDraft(nil), model.StoredNew)
	if got := p.store.Prepared(); !slices.Equal(got, []int{1}) {
		t.Fatalf("statements are prepared for %v rows, want 1: the test shows nothing", got)
	}
	if err := p.ReadOnly(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	d := benchDraft(nil)
	if _, err := p.store.Insert(t.Context(), []model.Draft{d}); !errors.Is(err, model.ErrNotStored) {
		t.Errorf("got %v, want ErrNotStored", err)
	}
	if got := p.store.Prepared(); len(got) != 0 {
		t.Errorf("the connection is kept, with statements for %v rows", got)
	}
	if err := p.ReadOnly(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	repeat(t, p.store, d, model.StoredNew)
}
