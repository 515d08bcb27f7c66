package gormstore_test

import (
	"bytes"
	"fmt"
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
		Service: benchDraft(nil).Service, Owner: "test", Lease: time.Minute, MaxRows: 5000, MaxBytes: 1 << 30,
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

// TestInsertAfterItsConnectionWasClosed: a connection that the server closed while nobody
// used it is noticed before anything is sent on it.
func TestInsertAfterItsConnectionWasClosed(t *testing.T) {
	t.Parallel()
	s := migrated(t, servers[0].dsn(t), gormstore.Options{})
	for i := range 5 {
		for range 2 {
			if _, err := s.Insert(t.Context(), batch(1)); err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
		}
		killOthers(t, s)
	}
	if got, err := s.List(t.Context(), model.Filter{}); err != nil || len(got) != 10 {
		t.Errorf("%d rows, %v, want 10", len(got), err)
	}
}

// killOthers ends all connections to the store's database but the one that it uses.
func killOthers(t *testing.T, s *gormstore.Store) {
	t.Helper()
	conn, err := s.Pool().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	rows, err := conn.QueryContext(t.Context(), "SELECT id FROM information_schema.processlist "+
		"WHERE db = DATABASE() AND id <> CONNECTION_ID()")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil || len(ids) == 0 {
		t.Fatalf("%d connections to kill, %v: the test shows nothing", len(ids), err)
	}
	for _, id := range ids {
		if _, err := conn.ExecContext(t.Context(), fmt.Sprintf("KILL %d", id)); err != nil {
			t.Fatal(err)
		}
	}
	for left := 1; left > 0; { // until the server has closed them
		err := conn.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist "+
			"WHERE db = DATABASE() AND id <> CONNECTION_ID()").Scan(&left)
		if err != nil {
			t.Fatal(err)
		}
	}
}
