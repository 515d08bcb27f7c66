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
var ErrNested = errors.New("gormtx: the *gorm.DB is already in a transaction")

// Transaction runs fn in a transaction of db, commits, and sends what fn published
// through its [publisher.Tx]. Errors and panics are those of [publisher.InTx]. Inside fn
// nested tx.Transaction calls (savepoints) may use the same Tx: messages of a savepoint
// that is rolled back do not exist afterwards and are not sent. A savepoint by SQL text
// (tx.Exec("SAVEPOINT a")) is not seen; tx.SavePoint and tx.RollbackTo are. db must reach
// the same database as the publisher's store.
func Transaction(
	ctx context.Context, p *publisher.Publisher, db *gorm.DB, fn func(*gorm.DB, *publisher.Tx) error,
) error {
	if _, nested := db.Statement.ConnPool.(gorm.TxCommitter); nested {
		return ErrNested
	}
	tx := db.WithContext(ctx).Begin()
	if tx.Error != nil {
		return fmt.Errorf("gormtx: begin: %w", tx.Error)
	}
	handle, ok := tx.Statement.ConnPool.(publisher.Handle)
	if !ok {
		return fmt.Errorf("gormtx: begin: %w", errors.Join(gorm.ErrInvalidTransaction, tx.Rollback().Error))
	}
	return publisher.Run(ctx, p, handle, func(out *publisher.Tx) error { return fn(watched(tx, out), out) })
}
