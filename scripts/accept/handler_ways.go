package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/publisher/gormtx"
)

// The ways to run a transaction.
const (
	byInTx     = "InTx"
	byGormtx   = "gormtx"
	byHandSQL  = "by hand, database/sql"
	byHandGorm = "by hand, gorm"
)

func (h *handlers) ways() []string { return []string{byInTx, byGormtx, byHandSQL, byHandGorm} }

// handlerTx is what a handler works with.
type handlerTx struct {
	out       *publisher.Tx
	exec      func(ctx context.Context, query string, args ...any) error
	savepoint func(ctx context.Context, fn func() error) error
	cancel    context.CancelFunc // ends the context that the transaction was begun with
}

func (h *handlers) transaction(
	ctx context.Context, way string, fn func(context.Context, handlerTx) error,
) error {
	switch way {
	case byInTx:
		return publisher.InTx(ctx, h.svc.pub, h.sql.db, nil,
			func(ctx context.Context, tx *sql.Tx, out *publisher.Tx) error { return fn(ctx, h.sqlTx(tx, out)) })
	case byGormtx:
		return gormtx.Transaction(ctx, h.svc.pub, h.gorm,
			func(ctx context.Context, tx *gorm.DB, out *publisher.Tx) error { return fn(ctx, gormTx(tx, out)) })
	case byHandSQL:
		tx, err := h.sql.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		out := h.svc.pub.Tx(tx)
		return byHand(ctx, out, tx.Commit, tx.Rollback, func(ctx context.Context) error {
			return fn(ctx, h.sqlTx(tx, out))
		})
	case byHandGorm:
		tx := h.gorm.WithContext(ctx).Begin()
		if tx.Error != nil {
			return tx.Error
		}
		handle, ok := tx.Statement.ConnPool.(publisher.Handle)
		if !ok {
			return fmt.Errorf("gorm's transaction is a %T", tx.Statement.ConnPool)
		}
		out := h.svc.pub.Tx(handle)
		return byHand(ctx, out, handle.Commit, handle.Rollback, func(ctx context.Context) error {
			s := gormTx(tx.WithContext(ctx), out)
			s.savepoint = out.Savepoint // gorm's own are seen inside gormtx alone
			return fn(ctx, s)
		})
	}
	return fmt.Errorf("no way %q", way)
}

// byHand is what a service writes that uses neither InTx nor gormtx.
func byHand(
	ctx context.Context, out *publisher.Tx, commit, rollback func() error, fn func(context.Context) error,
) (err error) {
	defer func() {
		if undo := rollback(); undo != nil && !errors.Is(undo, sql.ErrTxDone) {
			err = errors.Join(err, undo)
		}
	}()
	if err := fn(out.Context(ctx)); err != nil {
		return err
	}
	_, err = out.Commit(ctx, commit)
	return err
}

func (h *handlers) sqlTx(tx *sql.Tx, out *publisher.Tx) handlerTx {
	return handlerTx{
		out: out, savepoint: out.Savepoint,
		exec: func(ctx context.Context, query string, args ...any) error { return h.query(ctx, tx, query, args...) },
	}
}

func gormTx(tx *gorm.DB, out *publisher.Tx) handlerTx {
	return handlerTx{
		out: out,
		exec: func(ctx context.Context, query string, args ...any) error {
			return tx.WithContext(ctx).Exec(query, args...).Error
		},
		savepoint: func(_ context.Context, fn func() error) error {
			return tx.Transaction(func(*gorm.DB) error { return fn() })
		},
	}
}
