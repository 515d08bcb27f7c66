package gormstore_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

const hour = time.Hour

func begin(t *testing.T, s *gormstore.Store) *sql.Tx {
	t.Helper()
	tx, err := s.Pool().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func present(t *testing.T, s *gormstore.Store, rows ...model.Draft) int {
	t.Helper()
	ids := make([]string, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	got, err := s.ReadBack(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	return len(got)
}

func batch(n int) []model.Draft {
	out := make([]model.Draft, n)
	for i := range out {
		out[i] = benchDraft([]byte{byte(i)})
	}
	return out
}

// TestC38_InsertTxIsTheCallersTransaction: nothing is seen before the commit, nothing
// stays after a rollback.
func TestC38_InsertTxIsTheCallersTransaction(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{})
		for _, n := range []int{1, 3, 520} {
			rows := batch(n)
			tx := begin(t, s)
			if err := insertTx(t, s, tx, rows...); err != nil {
				t.Fatal(err)
			}
			if s.Dialect() != "sqlite" { // that has one connection
				if _, _, err := s.Show(t.Context(), rows[0].ID); !errors.Is(err, model.ErrNotFound) {
					t.Errorf("rows are seen before the commit: %v", err)
				}
			}
			if err := tx.Rollback(); err != nil || present(t, s, rows...) != 0 {
				t.Errorf("after rollback (%v) %d of %d rows are present", err, present(t, s, rows...), n)
			}
			tx = begin(t, s)
			if err := insertTx(t, s, tx, rows...); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(); err != nil || present(t, s, rows...) != n {
				t.Errorf("after commit (%v) %d of %d rows are present", err, present(t, s, rows...), n)
			}
		}
	})
}

func TestInsertTxStoresWhatInsertStores(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{})
		d := benchDraft(nil)
		d.MessageKey, d.Delay = "key ü", 1500*time.Millisecond
		tx := begin(t, s)
		if err := insertTx(t, s, tx, d); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		got, _, err := s.Show(t.Context(), d.ID)
		wait := got.NextAttemptAt - got.CreatedAt // the server may read its clock twice
		if err != nil || wait < 1400 || wait > 1600 || got.MessageKey != "key ü" ||
			got.Status != model.Ready {
			t.Errorf("got %+v, %v", got, err)
		}
		// Equal to a row that Insert would store: an insert of it finds it.
		found, err := s.Insert(t.Context(), []model.Draft{d})
		if err != nil || found[0] != model.StoredBefore {
			t.Errorf("insert of the same message: %v, %v, want before", found, err)
		}
	})
}

// TestC36_OpenClaimsBlockNobody holds two claim transactions open: they hold different
// rows, a third gets others, and inserts and deletes of other rows pass.
func TestC36_OpenClaimsBlockNobody(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{})
		if s.Dialect() == "sqlite" {
			return // one writer: claims follow each other
		}
		rows := batch(200)
		for i := range rows {
			rows[i].Delay = 0
		}
		if _, err := s.Insert(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		c := model.Claim{Service: "orders", Instance: "h", Lease: hour, MaxRows: 10, MaxBytes: 1 << 20}
		held := map[string]bool{}
		for range 2 {
			for _, id := range lockDue(t, begin(t, s), s, c) {
				if held[id] {
					t.Errorf("row %s is locked by two claims", id)
				}
				held[id] = true
			}
		}
		if len(held) != 20 {
			t.Fatalf("two open claims hold %d rows, want 20", len(held))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		got, err := s.Claim(ctx, c)
		if err != nil || len(got.Rows) != 10 {
			t.Fatalf("third claim: %d rows, %v, want 10", len(got.Rows), err)
		}
		for _, r := range got.Rows {
			if held[r.ID] {
				t.Errorf("row %s was claimed although another holds it", r.ID)
			}
		}
		due := batch(1)
		due[0].Delay = 0
		if _, err := s.Insert(ctx, due); err != nil {
			t.Errorf("insert beside open claims: %v", err)
		}
		if n, err := s.Delete(ctx, []model.RowKey{{ID: got.Rows[0].ID}}); err != nil || n != 1 {
			t.Errorf("delete beside open claims: %d, %v", n, err)
		}
	})
}

func lockDue(t *testing.T, tx *sql.Tx, s *gormstore.Store, c model.Claim) []string {
	t.Helper()
	query, args := s.DueQuery(c)
	rows, err := tx.QueryContext(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for rows.Next() {
		var id string
		into := []any{&id}
		for range columns[1:] {
			into = append(into, new(any))
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return ids
}

// lockRow holds a row locked, as somebody's shell may.
func lockRow(t *testing.T, tx *sql.Tx, id string) {
	t.Helper()
	var got string
	err := tx.QueryRowContext(t.Context(), "SELECT id FROM trans_message WHERE id = '"+id+"' FOR UPDATE").Scan(&got)
	if err != nil {
		t.Fatal(err)
	}
}
