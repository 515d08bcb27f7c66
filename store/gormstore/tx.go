package gormstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"
)

const (
	// txTries bounds how often a transaction is run as a whole.
	txTries = 10
	// rollbackTimeout bounds a ROLLBACK, which must run also after its context has ended.
	rollbackTimeout = 2 * time.Second
)

// dbTx is an open transaction of our own.
type dbTx interface {
	querier
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// inTx runs fn in a transaction of our own and runs it again as a whole, with jitter,
// when rivals undid it. Any error rolls back: after a lock timeout MySQL keeps the first
// half of a transaction, which must never be committed.
func (s *Store) inTx(ctx context.Context, op string, fn func(dbTx) error) error {
	return s.wrap(op, s.retryTx(ctx, fn))
}

// retryTx is inTx without a name for errors.
func (s *Store) retryTx(ctx context.Context, fn func(dbTx) error) error {
	for try := 1; ; try++ {
		err := s.tryTx(ctx, fn)
		if err == nil || !again(ctx, s.d.classify(err), try) || pause(ctx, try) != nil {
			return err
		}
	}
}

// again reports whether what rivals undid is worth another try; a row that appeared at
// the same time is found then. A lock may be held for long: there the deadline is the
// bound, where there is one.
func again(ctx context.Context, c class, try int) bool {
	_, bounded := ctx.Deadline()
	undone := c == classRetry || c == classDuplicate || c == classBusy
	return undone && (try < txTries || c == classBusy && bounded)
}

// tryTx runs fn in a transaction once. It ends with ctx, or rollbackTimeout later.
func (s *Store) tryTx(ctx context.Context, fn func(dbTx) error) error {
	if s.d.name == dialectMySQL {
		return s.tryConn(ctx, fn)
	}
	tx, err := s.db.BeginTx(ctx, s.txOptions())
	if err != nil {
		return notSentError{err}
	}
	if err := fn(tx); err != nil {
		_ = tx.Rollback() // the statement's error says more
		return s.d.uncommitted(err)
	}
	return s.d.commitError(tx.Commit())
}

// tryConn is tryTx for MySQL. Its driver has no context for the COMMIT and ROLLBACK of a
// *sql.Tx: on a network that swallows everything they would wait for the kernel to give
// up. As statements they end with their context. A connection whose transaction is not
// known to have ended is closed, never handed back: its next user would be inside it.
func (s *Store) tryConn(ctx context.Context, fn func(dbTx) error) error {
	conn, err := s.begin(ctx)
	if err != nil {
		return notSentError{err}
	}
	ended := false
	defer func() {
		if !ended {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		_ = conn.Close() // hands it back; one that is closed already is no error of ours
	}()
	if err := fn(conn); err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_, rollbackErr := conn.ExecContext(clean, "ROLLBACK")
		ended = rollbackErr == nil
		return s.d.uncommitted(err)
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	ended = err == nil
	return s.d.commitError(err)
}

// begin takes a connection and opens a transaction on it, at READ COMMITTED where the pool
// is a caller's. A connection that was closed while idle is replaced, as database/sql does.
func (s *Store) begin(ctx context.Context) (*sql.Conn, error) {
	for try := 0; ; try++ {
		conn, err := s.db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		if !s.own {
			_, err = conn.ExecContext(ctx, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
		}
		if err == nil {
			_, err = conn.ExecContext(ctx, "START TRANSACTION")
		}
		if err == nil {
			return conn, nil
		}
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // it may be inside a transaction
		_ = conn.Close()
		if !errors.Is(err, driver.ErrBadConn) || try > s.opt.MaxOpenConns {
			return nil, err
		}
	}
}
