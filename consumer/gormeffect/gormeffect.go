// Package gormeffect is the form of package effect for gorm.
package gormeffect

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/consumer/effect"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/publisher/gormtx"
)

// TxHandler has its effect in tx, and publishes through out, which is nil without a publisher. Nil commits both; any
// error rolls back. tx.Transaction inside it is a savepoint.
type TxHandler func(ctx context.Context, tx *gorm.DB, out *publisher.Tx, m *consumer.Message) error

// InTx makes a handler that runs fn in a transaction of db: once has the rules, see [effect.Once.InTx].
func InTx(once *effect.Once, db *gorm.DB, fn TxHandler) consumer.Handler {
	return func(ctx context.Context, m *consumer.Message) error {
		return once.Handle(ctx, m, func(ctx context.Context, body effect.Body) error {
			return transact(ctx, once.Publisher(), db, func(ctx context.Context, tx *gorm.DB, out *publisher.Tx) error {
				handle, ok := tx.Statement.ConnPool.(effect.Transaction)
				if !ok {
					return fmt.Errorf("gormeffect: %w: it cannot be rolled back", gorm.ErrInvalidTransaction)
				}
				return body(ctx, handle, func() error { return fn(ctx, tx, out, m) })
			})
		})
	}
}

// transact runs fn in a transaction, with what it publishes where there is a publisher.
func transact(
	ctx context.Context, p *publisher.Publisher, db *gorm.DB,
	fn func(ctx context.Context, tx *gorm.DB, out *publisher.Tx) error,
) error {
	if p != nil {
		return gormtx.Transaction(ctx, p, db, fn)
	}
	if db == nil || db.Config == nil {
		return errors.New("gormeffect: the *gorm.DB is nil or zero: open it by gorm.Open")
	}
	tx := db.WithContext(ctx).Begin()
	if tx.Error != nil {
		return fmt.Errorf("begin: %w", tx.Error)
	}
	defer func() { _ = tx.Rollback() }() // no matter after the commit; before it the error or panic says more
	if err := fn(ctx, tx, nil); err != nil {
		return err
	}
	return tx.Commit().Error
}
