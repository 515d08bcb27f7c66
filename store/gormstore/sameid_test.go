package gormstore_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"testing"

	mysqldrv "github.com/go-sql-driver/mysql"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// TestA3_InsertTxTellsEachRow: of one statement every row gets its own result.
func TestA3_InsertTxTellsEachRow(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{})
		old := batch(3)
		for i := range old {
			old[i].Epoch = model.NewEpoch()
		}
		if _, err := s.Insert(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		kill := "UPDATE trans_message SET status = 'DEAD' WHERE id = '" + old[2].ID + "'"
		if _, err := s.Pool().ExecContext(t.Context(), kill); err != nil {
			t.Fatal(err)
		}
		rows, own := batch(3), batch(1)
		other := old[1]
		other.Payload = []byte("other")
		rows = append(rows, old[0], other, old[2], own[0])
		for i := range rows {
			rows[i].Epoch = model.NewEpoch()
		}
		tx := begin(t, s)
		if err := insertTx(t, s, tx, own...); err != nil {
			t.Fatal(err)
		}
		stored, err := s.InsertTx(t.Context(), tx, rows, func(id string) *model.TransMessage {
			if id == own[0].ID {
				return &own[0].TransMessage
			}
			return nil
		})
		want := []model.Stored{
			model.StoredNew, model.StoredNew, model.StoredNew,
			model.StoredBefore, model.StoredOther, model.StoredDead, model.StoredBefore,
		}
		if err != nil || !slices.Equal(stored, want) {
			t.Fatalf("got %v, %v, want %v", stored, err, want)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if n := present(t, s, rows...); n != len(rows) {
			t.Errorf("%d rows, want %d: the neighbours are stored", n, len(rows))
		}
	})
}

// after runs a function once, after a statement.
type after struct {
	*sql.Tx
	do func()
}

func (a *after) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	res, err := a.Tx.ExecContext(ctx, query, args...)
	if do := a.do; do != nil {
		a.do = nil
		do()
	}
	return res, err
}

// TestA3_ARowGoneByThenIsStoredAgain: the row that was in the way is delivered and deleted before
// anybody looks at it. On MySQL the refused INSERT keeps it locked, so that it cannot go.
func TestA3_ARowGoneByThenIsStoredAgain(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{})
		if s.Dialect() != "postgres" {
			return
		}
		rows := batch(3)
		if _, err := s.Insert(t.Context(), rows[:1]); err != nil {
			t.Fatal(err)
		}
		key := model.RowKey{ID: rows[0].ID, Epoch: rows[0].Epoch}
		for i := range rows {
			rows[i].Epoch = model.NewEpoch()
		}
		tx := begin(t, s)
		handle := &after{Tx: tx, do: func() {
			if n, err := s.Delete(t.Context(), []model.RowKey{key}); n != 1 || err != nil {
				t.Errorf("delete: %d, %v", n, err)
			}
		}}
		if err := insertTx(t, s, handle, rows...); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if n := present(t, s, rows...); n != 3 {
			t.Errorf("%d rows, want 3", n)
		}
	})
}

// TestA3_WhatCannotBeSeenIsAnError: a row of this transaction that nobody remembers is in the way.
// The error comes after a bounded number of tries, with the driver's own inside.
func TestA3_WhatCannotBeSeenIsAnError(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{})
		rows := batch(2)
		tx := begin(t, s)
		if err := insertTx(t, s, tx, rows[:1]...); err != nil {
			t.Fatal(err)
		}
		rows[0].Epoch = model.NewEpoch()
		stored, err := s.InsertTx(t.Context(), tx, rows, nil)
		var my *mysqldrv.MySQLError
		switch s.Dialect() {
		case "sqlite": // the handle itself sees it
			if err != nil || stored[0] != model.StoredBefore {
				t.Errorf("got %v, %v, want it found", stored, err)
			}
		case "mysql":
			if !errors.As(err, &my) || my.Number != 1062 {
				t.Errorf("got %v, want the driver's own 1062", err)
			}
		default:
			if err == nil {
				t.Errorf("got %v, want an error", stored)
			}
		}
	})
}
