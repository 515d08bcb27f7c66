package gormstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

func inboxRecord(key string) model.InboxRecord {
	return model.InboxRecord{Consumer: "payments", Key: []byte(key), Mark: 7}
}

// beginOn opens a transaction that the test's end rolls back.
func beginOn(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// lockWait reads what the session waits for a lock.
func lockWait(t *testing.T, s *gormstore.Store, x interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
},
) (wait string) {
	t.Helper()
	query := map[string]string{
		"mysql": "SELECT @@SESSION.innodb_lock_wait_timeout", "postgres": "SELECT current_setting('lock_timeout')",
	}[s.Dialect()]
	if err := x.QueryRowContext(t.Context(), query).Scan(&wait); err != nil {
		t.Fatal(err)
	}
	return wait
}

// TestRecordLeavesTheSessionAlone: the handler's own statements wait as the service's pool says.
func TestRecordLeavesTheSessionAlone(t *testing.T) {
	t.Parallel()
	for _, server := range servers[:2] {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			dsn := server.dsn(t)
			s, db := migrated(t, dsn, gormstore.Options{}), servicePool(t, server.name, dsn)
			set := map[string]string{
				"mysql": "SET SESSION innodb_lock_wait_timeout = 37", "postgres": "SET lock_timeout = '37s'",
			}[s.Dialect()]
			db.SetMaxOpenConns(1)
			if _, err := db.ExecContext(t.Context(), set); err != nil {
				t.Fatal(err)
			}
			for _, commit := range []bool{true, false} { // the second time it is a duplicate
				tx := beginOn(t, db)
				before := lockWait(t, s, tx)
				first, err := s.RecordTx(t.Context(), tx, inboxRecord("x"), 2*time.Second)
				if err != nil || first != commit {
					t.Fatalf("first %t, %v, want %t", first, err, commit)
				}
				end := tx.Rollback
				if commit {
					if after := lockWait(t, s, tx); after != before {
						t.Errorf("the transaction waits %s for locks after the record, want %s", after, before)
					}
					end = tx.Commit
				}
				if err := end(); err != nil {
					t.Fatal(err)
				}
				if after := lockWait(t, s, db); after != before {
					t.Errorf("the session waits %s for locks, want %s", after, before)
				}
			}
		})
	}
}

// TestRecordOnMySQLIsGivenUp: MySQL has no bound for one statement: it is given up by its
// context, the transaction with it, and its connection is not used again.
func TestRecordOnMySQLIsGivenUp(t *testing.T) {
	t.Parallel()
	server := servers[0]
	dsn := server.dsn(t)
	s, db := migrated(t, dsn, gormstore.Options{}), servicePool(t, server.name, dsn)
	s.SetMaria(false)
	holder := beginOn(t, db)
	if first, err := s.RecordTx(t.Context(), holder, inboxRecord("x"), time.Second); err != nil || !first {
		t.Fatalf("first %t, %v", first, err)
	}
	tx := beginOn(t, db)
	var id, next int
	if err := tx.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	_, err := s.RecordTx(t.Context(), tx, inboxRecord("x"), time.Second)
	if s.TxFault(err) != model.FaultRivals || t.Context().Err() != nil {
		t.Errorf("got %v (%v), want that rivals were in the way", err, s.TxFault(err))
	}
	_ = tx.Rollback() // of a connection that is closed
	if err := db.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&next); err != nil || next == id {
		t.Errorf("connection %d (%v) is used again", id, err)
	}
	if err := holder.Commit(); err != nil {
		t.Fatal(err)
	}
	first, err := s.RecordTx(t.Context(), beginOn(t, db), inboxRecord("x"), time.Second)
	if err != nil || first {
		t.Errorf("first %t, %v, want the holder's record found", first, err)
	}
}

// TestRecordedTxAfterADeadlock: InnoDB rolled the transaction back, the error was overlooked,
// and what comes after it runs in autocommit.
func TestRecordedTxAfterADeadlock(t *testing.T) {
	t.Parallel()
	for _, i := range []int{0, 2} { // PostgreSQL refuses to go on
		server := servers[i]
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			dsn := server.dsn(t)
			s, db := migrated(t, dsn, gormstore.Options{}), servicePool(t, server.name, dsn)
			tx, r := beginOn(t, db), inboxRecord("x")
			if first, err := s.RecordTx(t.Context(), tx, r, time.Second); err != nil || !first {
				t.Fatalf("first %t, %v", first, err)
			}
			if held, err := s.RecordedTx(t.Context(), tx, r); err != nil || !held {
				t.Fatalf("held %t, %v", held, err)
			}
			if _, err := tx.ExecContext(t.Context(), "ROLLBACK"); err != nil { // as the deadlock does
				t.Fatal(err)
			}
			rival := r
			rival.Mark = 8
			other := beginOn(t, db)
			if first, err := s.RecordTx(t.Context(), other, rival, time.Second); err != nil || !first {
				t.Fatalf("first %t, %v", first, err)
			}
			if err := other.Commit(); err != nil {
				t.Fatal(err)
			}
			if held, err := s.RecordedTx(t.Context(), tx, r); err != nil || held {
				t.Errorf("held %t, %v, want it lost, whatever a rival wrote since", held, err)
			}
		})
	}
}

// TestTxFault judges errors by their codes, whatever their text.
func TestTxFault(t *testing.T) {
	t.Parallel()
	my := func(n uint16) error { return &mysql.MySQLError{Number: n, Message: "1213 deadlock 40001"} }
	pg := func(code string) error { return &pgconn.PgError{Code: code, Message: "40001"} }
	read := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, c := range []struct {
		server int
		want   model.TxFault
		errs   []error
	}{
		{0, model.FaultRivals, []error{my(1205), my(1213), my(3572), my(1020)}},
		{0, model.FaultAway, []error{
			my(1290), my(1792), my(1836), my(1040), my(1045), my(1053), my(1927), my(1047),
		}},
		{0, model.FaultLost, []error{mysql.ErrInvalidConn, driver.ErrBadConn, dial, read, net.ErrClosed}},
		{0, model.FaultOther, []error{
			nil, my(1062), my(1054), my(1146), my(1048), errors.New("1213"), context.Canceled, context.DeadlineExceeded,
		}},
		{1, model.FaultRivals, []error{pg("40001"), pg("40P01"), pg("55P03")}},
		{1, model.FaultAway, []error{
			pg("25006"), pg("57P01"), pg("57P03"), pg("53300"), pg("08006"), pg("28P01"),
		}},
		{1, model.FaultLost, []error{
			io.ErrUnexpectedEOF, dial, &pgconn.ConnectError{}, safe{errors.New("conn closed")},
		}},
		{1, model.FaultOther, []error{nil, pg("23505"), pg("42P01"), pg("57014"), safe{context.Canceled}}},
	} {
		s := migrated(t, servers[c.server].dsn(t), gormstore.Options{})
		for _, err := range c.errs {
			if got := s.TxFault(err); got != c.want {
				t.Errorf("%#v: got %d, want %d", err, got, c.want)
			}
			if err != nil && s.TxFault(fmt.Errorf("pay: %w", err)) != c.want {
				t.Errorf("%#v: wrapped it is another fault", err)
			}
		}
	}
}
