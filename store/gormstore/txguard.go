package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"github.com/transmsg/transmsg/model"
)

// What InsertTx stores must be undone when the caller rolls back. It is not where the handle is a
// pool or a connection without BEGIN, and not after an error that ended the transaction: InnoDB
// answers a deadlock by rolling all of it back, and SQLite an interrupted write; database/sql does
// not notice, and the next statement runs in autocommit. So the handle's type is looked at, and the
// server is asked. On PostgreSQL no error ends a transaction, it refuses everything but its end
// (25P02): there the type of a transaction is enough, unless the caller ends it by SQL text.
var (
	errNoTx = errors.New("no transaction is open on this handle, and a row stored now would stay: BEGIN was never " +
		"called, or an earlier error, such as a deadlock or an interrupted write, has rolled it back (then run the " +
		"whole transaction again), or a statement such as CREATE TABLE has committed it (then what came before " +
		"that statement stays)")
	errPool = errors.New("the handle is a pool of connections and no transaction, and a row stored through it " +
		"would stay: pass the *sql.Tx, or the tx that gorm's Transaction hands to its function")
)

// guardTx makes an INSERT for a caller's transaction fail on MariaDB where there is none: its id is
// NULL then. Every tuple is guarded: in a session that is not strict, NULL in an INSERT of several
// rows becomes the empty id with a warning, and the second of them is a duplicate.
func (s *Store) guardTx(query string) string {
	if !s.maria {
		return query
	}
	return strings.ReplaceAll(query, "(?,", "(IF(@@in_transaction,?,NULL),")
}

// requireTx refuses a handle that has no open transaction, as far as guardTx does not. It costs a
// round trip on MySQL, and on PostgreSQL where the type does not say that it is a transaction.
func (s *Store) requireTx(ctx context.Context, x model.Execer) error {
	if isPool(x) {
		return errPool
	}
	_, isTx := x.(interface {
		Commit() error
		Rollback() error
	})
	x = s.Direct(x)
	switch {
	case s.d.name == dialectSQLite:
		return s.askSQLite(ctx, x)
	case s.d.name == dialectMySQL && !s.maria:
		return s.askMySQL(ctx, x)
	case s.d.name == dialectPostgres && !isTx: // refused outside of a transaction
		_, err := x.ExecContext(ctx, "LOCK TABLE "+s.sql.table+" IN ROW EXCLUSIVE MODE")
		return s.explainTx(err)
	}
	return nil
}

// isPool recognises *sql.DB, what embeds it, and gorm's pool that prepares statements.
func isPool(x model.Execer) bool {
	switch x.(type) {
	case interface{ Stats() sql.DBStats }, *gorm.PreparedStmtDB:
		return true
	}
	return false
}

// Direct returns the handle on which a statement without parameters is sent as it is: that below
// gorm's cache of prepared statements, since MySQL prepares no SAVEPOINT (1295). Other handles
// come back unchanged.
func (s *Store) Direct(x model.Execer) model.Execer {
	if tx, ok := x.(*gorm.PreparedStmtTX); ok && tx.Tx != nil {
		return tx.Tx
	}
	return x
}

// askMySQL asks MySQL, which does not know @@in_transaction, by what it refuses while a
// transaction is open. A proxy may accept it by itself: then a savepoint tells, which is gone as
// soon as it is set where there is no transaction, so that releasing it is an error.
func (s *Store) askMySQL(ctx context.Context, x model.Execer) error {
	const inProgress = 1568
	_, err := x.ExecContext(ctx, "SET TRANSACTION READ WRITE")
	if r, _ := s.d.reply(err); r.Number == inProgress {
		return nil
	}
	for _, stmt := range []string{"SAVEPOINT transmsg_guard", "RELEASE SAVEPOINT transmsg_guard"} {
		if err == nil {
			_, err = x.ExecContext(ctx, stmt)
		}
	}
	return s.explainTx(err)
}

// askSQLite begins a transaction, which is refused inside of one. Both statements are one text:
// they run on one connection, and the second not after the first has failed. An end of ctx in
// between would leave a transaction open.
func (s *Store) askSQLite(ctx context.Context, x model.Execer) error {
	_, err := x.ExecContext(context.WithoutCancel(ctx), "BEGIN; ROLLBACK")
	switch {
	case err == nil:
		return errNoTx
	case strings.Contains(err.Error(), "within a transaction"):
		return nil
	}
	return err
}

// explainTx adds the reason to the error by which the server says that no transaction is
// open; any other error comes back unchanged.
func (s *Store) explainTx(err error) error {
	const badNull, duplicate, noSavepoint = 1048, 1062, 1305
	r, ok := s.d.reply(err)
	none := false
	switch {
	case !ok:
	case s.d.name == dialectMySQL:
		none = r.Number == noSavepoint ||
			s.maria && r.Number == badNull && strings.Contains(r.Message, "'id'") ||
			s.maria && r.Number == duplicate && strings.Contains(r.Message, " '' ")
	case s.d.name == dialectPostgres:
		none = r.State == "25P01"
	}
	if none {
		return fmt.Errorf("%w: %w", errNoTx, err)
	}
	return err
}
