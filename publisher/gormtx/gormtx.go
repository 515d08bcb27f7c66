// Package gormtx runs a gorm transaction whose messages are sent after its commit. gorm
// has no hook after a commit, so the transaction is run by [Transaction].
package gormtx

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/transmsg/transmsg/publisher"
)

// ErrNested says that the *gorm.DB given is itself a transaction. Its commit is
// somebody else's, so nothing could be sent after it: call Transaction on the outermost
// level, and use its [publisher.Tx] inside nested ones.
var ErrNested = errors.New("gormtx: the *gorm.DB is already in a transaction: " +
	"inside gormtx.Transaction call tx.Transaction, and Publish of the same publisher.Tx")

// Transaction runs fn in a transaction of db, commits, and sends what fn published
// through its [publisher.Tx]. Errors and panics are those of [publisher.InTx], and so is the
// context that fn gets and that tx has. Inside fn nested tx.Transaction calls (savepoints)
// may use the same Tx: messages of a savepoint that is rolled back do not exist afterwards
// and are not sent, and what failed there does not count. A savepoint by SQL text
// (tx.Exec("SAVEPOINT a")) is not seen; tx.SavePoint and tx.RollbackTo are. db must reach
// the same database as the publisher's store.
//
// Inside fn a second Transaction on db is refused with [publisher.ErrInTx] when it gets fn's
// context; statements on db are refused where [Guard] is installed.
func Transaction(
	ctx context.Context, p *publisher.Publisher, db *gorm.DB,
	fn func(ctx context.Context, tx *gorm.DB, out *publisher.Tx) error,
) error {
	if db == nil || db.Config == nil || db.Statement == nil {
		return errors.New("gormtx: the *gorm.DB is nil or zero: open it by gorm.Open")
	}
	if _, nested := db.Statement.ConnPool.(gorm.TxCommitter); nested {
		refuse(ctx, ErrNested)
		return ErrNested
	}
	if publisher.TxFrom(ctx) != nil {
		err := fmt.Errorf("gormtx: Transaction: %w: inside it call tx.Transaction of its *gorm.DB, "+
			"and Publish of its publisher.Tx, or take publisher.OutsideTx(ctx) for a transaction of its own",
			publisher.ErrInTx)
		refuse(ctx, err)
		return err
	}
	if fn == nil {
		return errors.New("gormtx: the function to run in the transaction is nil")
	}
	tx := db.WithContext(ctx).Begin()
	if tx.Error != nil {
		return fmt.Errorf("gormtx: begin: %w", tx.Error)
	}
	handle, ok := tx.Statement.ConnPool.(publisher.Handle)
	if !ok {
		return fmt.Errorf("gormtx: begin: %w", errors.Join(gorm.ErrInvalidTransaction, tx.Rollback().Error))
	}
	return publisher.Run(ctx, p, handle, func(ctx context.Context, out *publisher.Tx) error {
		return fn(ctx, watched(ctx, tx, out), out)
	})
}

// refuse makes the transaction that is open in ctx end without a commit: a handler that
// overlooks the error would commit half of what it meant.
func refuse(ctx context.Context, err error) {
	if t := publisher.TxFrom(ctx); t != nil {
		t.Refuse(err)
	}
}
