package gormstore_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libtnb/sqlite"
	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// insertTx stores rows through a caller's handle, of which none exists.
func insertTx(t *testing.T, s *gormstore.Store, x model.Execer, rows ...model.Draft) error {
	t.Helper()
	stored, err := s.InsertTx(t.Context(), x, rows, nil)
	if err == nil && slices.ContainsFunc(stored, func(f model.Stored) bool { return f != model.StoredNew }) {
		return errors.New("not all rows are new")
	}
	return err
}

// viaGorm opens the store's database the way a service with gorm does.
func viaGorm(t *testing.T, s *gormstore.Store, dsn string, prepare bool) *gorm.DB {
	t.Helper()
	var d gorm.Dialector
	switch s.Dialect() {
	case "mysql":
		d = gormmysql.Open(dsn)
	case "postgres":
		d = gormpostgres.Open(dsn)
	default:
		d = sqlite.Open(strings.TrimPrefix(dsn, "sqlite:") + "?_pragma=busy_timeout(5000)")
	}
	db, err := gorm.Open(d, &gorm.Config{Logger: logger.Discard, PrepareStmt: prepare})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rawPool(t, db).Close() })
	return db
}

func rawPool(t *testing.T, db *gorm.DB) *sql.DB {
	t.Helper()
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

// handle is one of the things that a caller may pass to InsertTx. open makes it; undo rolls back
// what it can.
type handle struct {
	name string
	open func(t *testing.T, db *gorm.DB) (x model.Execer, undo func() error)
	ok   bool // it is a transaction
}

// tracing is a caller's wrapper, of which nothing can be told by its type.
type tracing struct{ model.Execer }

// byText is what an error does to a transaction on MySQL and SQLite, done by hand.
const byText = "transaction undone by text"

func handles() []handle {
	none := func() error { return nil }
	conn := func(t *testing.T, db *gorm.DB) *sql.Conn {
		c, err := rawPool(t, db).Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	tx := func(t *testing.T, db *gorm.DB, then ...string) *sql.Tx {
		tx, err := rawPool(t, db).BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range then {
			if _, err := tx.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		return tx
	}
	return []handle{
		{"pool", func(t *testing.T, db *gorm.DB) (model.Execer, func() error) {
			return rawPool(t, db), none
		}, false},
		{"pool in a struct", func(t *testing.T, db *gorm.DB) (model.Execer, func() error) {
			return struct{ *sql.DB }{rawPool(t, db)}, none
		}, false},
		{"traced pool", func(t *testing.T, db *gorm.DB) (model.Execer, func() error) {
			return tracing{rawPool(t, db)}, none
		}, false},
		{"gorm's pool", func(_ *testing.T, db *gorm.DB) (model.Execer, func() error) {
			return db.Statement.ConnPool, none
		}, false},
		{"connection", func(t *testing.T, db *gorm.DB) (model.Execer, func() error) {
			return conn(t, db), none
		}, false},
		{"connection with BEGIN", func(t *testing.T, db *gorm.DB) (model.Execer, func() error) {
			c := conn(t, db)
			run := func(statement string) error {
				_, err := c.ExecContext(context.WithoutCancel(t.Context()), statement)
				return err
			}
			if err := run("BEGIN"); err != nil {
				t.Fatal(err)
			}
			return c, func() error { return run("ROLLBACK") }
		}, true},
		{"transaction", func(t *testing.T, db *gorm.DB) (model.Execer, func() error) {
			tx := tx(t, db)
			return tx, tx.Rollback
		}, true},
		{"traced transaction", func(t *testing.T, db *gorm.DB) (model.Execer, func() error) {
			tx := tx(t, db)
			return tracing{tx}, tx.Rollback
		}, true},
		{"gorm's transaction", func(_ *testing.T, db *gorm.DB) (model.Execer, func() error) {
			tx := db.Begin()
			return tx.Statement.ConnPool, func() error { return tx.Rollback().Error }
		}, true},
		{byText, func(t *testing.T, db *gorm.DB) (model.Execer, func() error) {
			tx := tx(t, db, "ROLLBACK")
			return tx, func() error { _ = tx.Rollback(); return nil } // SQLite: there is none
		}, false},
		{"ended transaction", func(t *testing.T, db *gorm.DB) (model.Execer, func() error) {
			tx := tx(t, db)
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			return tx, none
		}, false},
	}
}

// TestB4_HandleWithoutATransactionIsRefused: what is stored through a handle is gone after the
// caller's rollback, or was refused, whatever the handle is.
func TestB4_HandleWithoutATransactionIsRefused(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{})
		for _, prepare := range []bool{false, true} {
			db := viaGorm(t, s, dsn, prepare)
			for _, h := range handles() {
				if s.Dialect() == "postgres" && h.name == byText {
					continue // nothing but the caller's own text does that there, and it is not asked
				}
				for _, n := range []int{1, 3} {
					rows := batch(n)
					x, undo := h.open(t, db)
					err := insertTx(t, s, x, rows...)
					if ended := errors.Is(err, sql.ErrTxDone); (err == nil) != h.ok || err != nil && !ended &&
						!strings.Contains(err.Error(), "no transaction") {
						t.Errorf("%s, prepared %v, %d rows: %v, want refused %v", h.name, prepare, n, err, !h.ok)
					}
					if err := undo(); err != nil {
						t.Errorf("%s: undo: %v", h.name, err)
					}
					if stayed := present(t, s, rows...); stayed != 0 {
						t.Errorf("%s, prepared %v: %d of %d rows stayed", h.name, prepare, stayed, n)
					}
				}
			}
		}
	})
}

// TestB4_InterruptedWriteOnSQLite: SQLite rolls the whole transaction back, the caller overlooks it.
func TestB4_InterruptedWriteOnSQLite(t *testing.T) {
	t.Parallel()
	dsn := servers[2].dsn(t)
	s := migrated(t, dsn, gormstore.Options{})
	db := rawPool(t, viaGorm(t, s, dsn, false))
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "CREATE TABLE own (n INTEGER)"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = tx.ExecContext(ctx, "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c) "+
		"INSERT INTO own SELECT n FROM c")
	if err == nil {
		t.Fatal("the write without end was not interrupted")
	}
	rows := batch(2)
	if err := insertTx(t, s, tx, rows...); err == nil || !strings.Contains(err.Error(), "no transaction") {
		t.Errorf("after an interrupted write: %v, want refused", err)
	}
	_ = tx.Rollback() // there is none any more
	if n := present(t, s, rows...); n != 0 {
		t.Errorf("%d rows stayed after the rollback", n)
	}
}

// TestB4_RoundTrips: the question is asked inside the INSERT, where the server can be.
func TestB4_RoundTrips(t *testing.T) {
	t.Parallel()
	dsn := servers[0].dsn(t)
	s := migrated(t, dsn, gormstore.Options{})
	tx := begin(t, s) // of the own pool, which sends one text a statement
	count := func() (n int) {
		var name string
		if err := tx.QueryRowContext(t.Context(), "SHOW SESSION STATUS LIKE 'Questions'").Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	var version string
	if err := tx.QueryRowContext(t.Context(), "SELECT VERSION()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	want := 2 // the INSERT, and SHOW
	if !strings.Contains(version, "MariaDB") {
		want = 3
	}
	before := count()
	if err := insertTx(t, s, tx, batch(3)...); err != nil {
		t.Fatal(err)
	}
	if got := count() - before; got != want {
		t.Errorf("%s: an INSERT is %d statements, want %d", version, got-1, want-1)
	}
}
