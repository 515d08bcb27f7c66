package publisher_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

// C34: with innodb_snapshot_isolation, the default from MariaDB 11.6.2 on, a write to a row that
// changed after the snapshot fails with 1020, and InnoDB has undone the whole transaction. What
// the business code then swallows may send nothing and store nothing.
func TestC34_AnOvertakenSnapshotSendsNothing(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]error{"message before": model.ErrRowsMissing, "message after": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStack(t, "mysql")
			db, _ := s.callersPool(t, "mysql")
			ctx := t.Context()
			if !hasSnapshotIsolation(t, db) {
				t.Skip("MySQL has no innodb_snapshot_isolation")
			}
			_, err := db.ExecContext(ctx, "CREATE TABLE business (id INT PRIMARY KEY, n INT NOT NULL) ENGINE=InnoDB")
			must(t, err)
			_, err = db.ExecContext(ctx, "INSERT INTO business VALUES (1, 0)")
			must(t, err)
			err = publisher.InTx(ctx, s.pub, db, nil, func(ctx context.Context, tx *sql.Tx, out *publisher.Tx) error {
				begin(ctx, t, tx)
				if want != nil {
					must(t, out.Publish(ctx, msg("k")))
				}
				overtaken(ctx, t, db, tx)
				if want == nil {
					if want = out.Publish(ctx, msg("k")); want == nil {
						t.Error("Publish after the transaction was undone: nil")
					}
				}
				return nil // whatever went wrong is swallowed
			})
			if err == nil || !errors.Is(err, want) {
				t.Errorf("the commit: %v, want %v", err, want)
			}
			if rows := s.settled(t); len(rows) != 0 {
				t.Errorf("rows left: %v", rows)
			}
			if got, err := s.broker.Drain("q1"); err != nil || len(got) > 0 {
				t.Errorf("%d messages sent (%v), want none", len(got), err)
			}
		})
	}
}

// begin takes the snapshot, in a session that minds it on every MariaDB.
func begin(ctx context.Context, t *testing.T, tx *sql.Tx) {
	t.Helper()
	_, err := tx.ExecContext(ctx, "SET SESSION innodb_snapshot_isolation = ON")
	must(t, err)
	var n int
	must(t, tx.QueryRowContext(ctx, "SELECT n FROM business WHERE id = 1").Scan(&n))
}

// overtaken changes the row behind tx's back, lets tx fail on it and swallows the error.
func overtaken(ctx context.Context, t *testing.T, db *sql.DB, tx *sql.Tx) {
	t.Helper()
	_, err := db.ExecContext(ctx, "UPDATE business SET n = n + 1 WHERE id = 1")
	must(t, err)
	_, err = tx.ExecContext(ctx, "UPDATE business SET n = n + 10 WHERE id = 1")
	const changed = 1020
	var said *mysql.MySQLError
	if !errors.As(err, &said) || said.Number != changed {
		t.Errorf("write to a row that changed after the snapshot: %v, want 1020: the test does not bite", err)
	}
}

func hasSnapshotIsolation(t *testing.T, db *sql.DB) bool {
	t.Helper()
	var name, value string
	err := db.QueryRowContext(t.Context(), "SHOW VARIABLES LIKE 'innodb_snapshot_isolation'").Scan(&name, &value)
	if errors.Is(err, sql.ErrNoRows) {
		return false
	}
	must(t, err)
	return true
}
