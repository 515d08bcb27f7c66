package publisher

import (
	"context"
	"database/sql"
	"fmt"
)

// InTx runs fn in a transaction of db with a [Tx] on it, commits by [Tx.Commit], and so
// sends what fn published. An error or panic of fn rolls back and comes back unchanged.
// Any other error is that of [Tx.Commit]: nil means that the transaction is committed and
// every message is there.
//
// db must reach the same database as the publisher's store. opts may be nil.
func InTx(ctx context.Context, p *Publisher, db *sql.DB, opts *sql.TxOptions, fn func(*sql.Tx, *Tx) error) error {
	tx, err := db.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("publisher: begin: %w", err)
	}
	return Run(ctx, p, tx, func(out *Tx) error { return fn(tx, out) })
}

// Handle is an open transaction. *sql.Tx is one, and so is what sqlx, bun, ent and gorm
// wrap around it.
type Handle interface {
	Execer
	Commit() error
	Rollback() error
}

// Run is [InTx] for a transaction that another library has begun: it runs fn with a [Tx]
// on it, and commits or rolls back.
func Run(ctx context.Context, p *Publisher, tx Handle, fn func(*Tx) error) error {
	t := p.Tx(tx)
	done := false
	defer func() {
		if !done { // an error or a panic of fn; the caller gets that, and the roll-back's is logged
			t.rollBack()
		}
	}()
	if err := fn(t); err != nil {
		return err
	}
	done = true
	_, err := t.Commit(ctx, tx.Commit)
	return err
}
