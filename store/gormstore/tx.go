package gormstore

import (
	"context"
	"database/sql"
)

// txTries bounds how often a transaction is run as a whole.
const txTries = 10

// inTx runs fn in a transaction of our own and runs it again as a whole, with jitter,
// when rivals undid it. Any error rolls back: after a lock timeout MySQL keeps the first
// half of a transaction, which must never be committed.
func (s *Store) inTx(ctx context.Context, op string, fn func(*sql.Tx) error) error {
	for try := 1; ; try++ {
		err := s.tryTx(ctx, fn)
		if err == nil {
			return nil
		}
		c := classify(err)
		again := c == classRetry || c == classDuplicate
		if !again || try == txTries || pause(ctx, try) != nil {
			return s.wrap(op, err)
		}
	}
}

func (s *Store) tryTx(ctx context.Context, fn func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, s.txOptions())
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		_ = tx.Rollback() // the statement's error says more
		return err
	}
	return tx.Commit()
}
