package gormstore_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
)

// A deadlock whose error was overlooked leaves the handle in autocommit: a row stored
// through it would stay although the caller rolls back. Both ways of finding out are
// tried on MariaDB; the one for MySQL works there too.
func TestC38_NoRowOutsideTheCallersTransaction(t *testing.T) {
	t.Parallel()
	for _, maria := range []bool{true, false} {
		dsn := dbtest.MySQL(t)
		s, err := anystore.Open(t.Context(), dsn, gormstore.Options{SkipSchemaCheck: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if _, err := migrations.Up(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if maria && !s.Maria() {
			continue // MySQL has one way
		}
		s.SetMaria(maria)
		draft := func() model.Draft {
			m := model.Message{ID: model.NewID(), Exchange: "ex", RoutingKey: "k"}
			return model.Draft{TransMessage: model.NewTransMessage("orders", &m, false)}
		}
		tx, err := s.Pool().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.InsertTx(t.Context(), tx, []model.Draft{draft(), draft()}, nil); err != nil {
			t.Fatalf("maria %v: in a transaction: %v", maria, err)
		}
		// What a deadlock does to the connection, without needing a rival.
		if _, err := tx.ExecContext(t.Context(), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
		rows := []model.Draft{draft(), draft()}
		if _, err := s.InsertTx(t.Context(), tx, rows, nil); !errors.Is(err, gormstore.ErrNoTx) {
			t.Errorf("maria %v: after the transaction was undone: %v, want errNoTx", maria, err)
		}
		if maria {
			guardedWhenNotStrict(t, s, tx, draft)
		}
		if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
			t.Error(err)
		}
		left, err := s.List(t.Context(), model.Filter{})
		if err != nil || len(left) != 0 {
			t.Errorf("maria %v: %d rows stayed (%v), want none", maria, len(left), err)
		}
	}
}

// guardedWhenNotStrict: a caller's session that is not strict turns NULL into the empty id
// where several rows are inserted.
func guardedWhenNotStrict(t *testing.T, s *gormstore.Store, tx *sql.Tx, draft func() model.Draft) {
	t.Helper()
	if _, err := tx.ExecContext(t.Context(), "SET SESSION sql_mode = ''"); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 3; n++ {
		rows := make([]model.Draft, n)
		for i := range rows {
			rows[i] = draft()
		}
		if _, err := s.InsertTx(t.Context(), tx, rows, nil); !errors.Is(err, gormstore.ErrNoTx) {
			t.Errorf("%d rows in a session that is not strict: %v, want errNoTx", n, err)
		}
	}
}
