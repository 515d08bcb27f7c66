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
// that is rolled back do not exist afterwards and are not sent. db must reach the same
// database as the publisher's store.
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
	t := p.Tx(tx.Statement.ConnPool)
	done := false
	defer func() {
		if !done { // an error or a panic of fn; the caller gets that, and the roll back's error is gorm's to log
			tx.Rollback()
		}
	}()
	if err := fn(tx, t); err != nil {
		return err
	}
	if err := t.BeforeCommit(ctx); err != nil {
		return err
	}
	done = true
	if err := tx.Commit().Error; err != nil {
		return fmt.Errorf("gormtx: commit: %w", err)
	}
	return t.AfterCommit(ctx)
}
