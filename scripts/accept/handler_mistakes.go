package main

import (
	"context"
	"database/sql"

	"gorm.io/gorm"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/publisher/gormtx"
)

// mistake is what a handler does with its message m; it drops the error.
type mistake struct {
	name string
	make func(ctx context.Context, h *handlers, tx handlerTx, m model.Message) error
	// cause is what the error of the refused commit must say; "" is no reason to refuse.
	cause        string
	inSavepoint  bool // may be made inside a savepoint too
	gorm         bool // is about gorm's outer handle
	ordersItself bool // stores the order, too
	asked        bool // the handler asked to go on without the message
	panics       bool
}

func mistakes() []mistake {
	return append(wrongPublish(), wrongHandle()...)
}

// wrongPublish are calls of the right Publish that fail, or not.
func wrongPublish() []mistake {
	publish := func(change func(*model.Message)) func(context.Context, *handlers, handlerTx, model.Message) error {
		return func(ctx context.Context, _ *handlers, tx handlerTx, m model.Message) error {
			change(&m)
			return tx.out.Publish(ctx, m)
		}
	}
	return []mistake{
		{name: "no mistake", make: publish(func(*model.Message) {})},
		{
			name: "a header without an AMQP type", cause: "headers", inSavepoint: true,
			make: publish(func(m *model.Message) { m.Headers = map[string]any{"who": struct{}{}} }),
		},
		{
			name: "a body of 5 MiB", cause: "body has 5242880 bytes", inSavepoint: true,
			make: publish(func(m *model.Message) { m.Body = make([]byte, 5<<20) }),
		},
		{
			name: "neither exchange nor key", cause: "both empty", inSavepoint: true,
			make: publish(func(m *model.Message) { m.Exchange, m.RoutingKey = "", "" }),
		},
		{
			name: "a call whose own context has ended", cause: "context canceled", inSavepoint: true,
			make: func(ctx context.Context, _ *handlers, tx handlerTx, m model.Message) error {
				ctx, cancel := context.WithCancel(ctx)
				cancel()
				return tx.out.Publish(ctx, m)
			},
		},
		{
			name: "TryPublish that fails", asked: true,
			make: func(ctx context.Context, _ *handlers, tx handlerTx, m model.Message) error {
				m.Properties.UserID = "somebody"
				return tx.out.TryPublish(ctx, m)
			},
		},
		{
			name: "the context ends at the end", cause: "the context ended before the commit",
			make: func(ctx context.Context, _ *handlers, tx handlerTx, m model.Message) error {
				err := tx.out.Publish(ctx, m)
				tx.cancel()
				return err
			},
		},
		{
			name: "a panic", panics: true,
			make: func(ctx context.Context, _ *handlers, tx handlerTx, m model.Message) error {
				if err := tx.out.Publish(ctx, m); err != nil {
					return err
				}
				panic(errHandler)
			},
		},
	}
}

// wrongHandle are calls of something outside where the transaction is meant.
func wrongHandle() []mistake {
	return []mistake{
		{
			name: "pub.Publish", cause: "Publisher.Publish", inSavepoint: true,
			make: func(ctx context.Context, h *handlers, _ handlerTx, m model.Message) error {
				_, err := h.svc.pub.Publish(ctx, m)
				return err
			},
		},
		{
			name: "pub.PublishBatch", cause: "Publisher.PublishBatch", inSavepoint: true,
			make: func(ctx context.Context, h *handlers, _ handlerTx, m model.Message) error {
				_, err := h.svc.pub.PublishBatch(ctx, []model.Message{m})
				return err
			},
		},
		{
			name: "InTx inside", cause: "InTx: a transaction is open", inSavepoint: true,
			make: func(ctx context.Context, h *handlers, _ handlerTx, m model.Message) error {
				return publisher.InTx(ctx, h.svc.pub, h.sql.db, nil,
					func(ctx context.Context, _ *sql.Tx, out *publisher.Tx) error { return out.Publish(ctx, m) })
			},
		},
		{
			name: "gormtx inside, on the outer handle", cause: "tx.Transaction", inSavepoint: true,
			make: func(ctx context.Context, h *handlers, _ handlerTx, m model.Message) error {
				return gormtx.Transaction(ctx, h.svc.pub, h.gorm,
					func(ctx context.Context, _ *gorm.DB, out *publisher.Tx) error { return out.Publish(ctx, m) })
			},
		},
		{
			name: "the order through the outer *gorm.DB", cause: "outer *gorm.DB", gorm: true, ordersItself: true,
			make: func(ctx context.Context, h *handlers, tx handlerTx, m model.Message) error {
				if err := tx.out.Publish(ctx, m); err != nil {
					return err
				}
				return h.gorm.WithContext(ctx).Exec("INSERT INTO orders VALUES (?)", m.ID).Error
			},
		},
	}
}
