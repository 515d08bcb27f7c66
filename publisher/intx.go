package publisher

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// InTx runs fn in a transaction of db with a [Tx] on it, commits by [Tx.Commit], and so
// sends what fn published. An error or panic of fn rolls back and comes back unchanged.
// Any other error is that of [Tx.Commit]: nil means that the transaction is committed and
// every message is there.
//
// The context that fn gets knows of the open transaction; see [Tx.Context]. Statements on
// db instead of the *sql.Tx cannot be seen: they run outside of the transaction.
//
// db must reach the same database as the publisher's store. opts may be nil.
func InTx(
	ctx context.Context, p *Publisher, db *sql.DB, opts *sql.TxOptions,
	fn func(ctx context.Context, tx *sql.Tx, out *Tx) error,
) error {
	if err := p.usable(); err != nil {
		return err
	}
	switch {
	case db == nil:
		return errors.New("publisher: begin: the *sql.DB is nil: open it by sql.Open")
	case fn == nil:
		return errNoFunction
	}
	if err := refuseInTx(ctx, "InTx", insteadOfTx, 1); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("publisher: begin: %w", err)
	}
	return Run(ctx, p, tx, func(ctx context.Context, out *Tx) error { return fn(ctx, tx, out) })
}

// insteadOfTx is what a second transaction inside a first is told.
const insteadOfTx = "use its handle and its Tx, with Tx.Savepoint or gorm's tx.Transaction for what may be undone alone"

// Handle is an open transaction. *sql.Tx is one, and so is what sqlx, bun, ent and gorm
// wrap around it.
type Handle interface {
	Execer
	Commit() error
	Rollback() error
}

// Run is [InTx] for a transaction that another library has begun: it runs fn with a [Tx]
// on it, and commits or rolls back. Before the begin, [TxFrom] tells whether one is open.
func Run(ctx context.Context, p *Publisher, tx Handle, fn func(ctx context.Context, out *Tx) error) error {
	t := p.Tx(tx)
	if err := t.usable(); err != nil {
		if !isNil(tx) {
			err = errors.Join(err, tx.Rollback())
		}
		return err
	}
	done := false
	defer func() {
		if !done { // an error or a panic of fn; the caller gets that, and the roll-back's is logged
			t.end()
			t.rollBack()
		}
	}()
	if fn == nil {
		return errNoFunction
	}
	if err := fn(t.Context(ctx), t); err != nil {
		return err
	}
	done = true
	_, err := t.Commit(ctx, tx.Commit)
	return err
}

// end marks the transaction as over.
func (t *Tx) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}
