package transmsg_test

import (
	"context"
	"database/sql"
	"log/slog"
	"time"

	"github.com/transmsg/transmsg"
	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/store/mysql"
)

// Order is the business object of the examples.
type Order struct {
	Number string
	Amount int64
}

func placeOrder(ctx context.Context, db *sql.DB, ob *transmsg.Outbox, order Order) error {
	msg, err := transmsg.JSON("orders", "order.placed", order)
	if err != nil {
		return err
	}
	msg.Key = order.Number // "where is order 4711?"

	return ob.InTx(ctx, db, nil, func(ctx context.Context, tx *sql.Tx, out *transmsg.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders (number, amount) VALUES (?, ?)",
			order.Number, order.Amount); err != nil {
			return err
		}
		return out.Publish(ctx, msg) // stored now, sent right after the commit
	})
}

func serve(ctx context.Context, dsn, url string, serve func(context.Context, *transmsg.Outbox) error) error {
	ob, err := transmsg.Open(ctx, transmsg.Config{Service: "orders", Store: mysql.DSN(dsn), AMQP: url})
	if err != nil {
		return err
	}
	defer closeOutbox(ob)
	return serve(ctx, ob)
}

// closeOutbox drains: an error says how many messages are left to a compensator.
func closeOutbox(ob *transmsg.Outbox) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := ob.Close(ctx); err != nil {
		slog.Error("close the outbox", "error", err)
	}
}

// Open once per process, publish inside business transactions.
func Example() {
	var db *sql.DB // the service's own pool on the same database
	err := serve(context.Background(), "mysql://shop:secret@db:3306/shop", "amqp://shop:secret@broker:5672/",
		func(ctx context.Context, ob *transmsg.Outbox) error {
			return placeOrder(ctx, db, ob, Order{Number: "4711", Amount: 1999})
		})
	if err != nil {
		slog.Error("place the order", "error", err) // the error's kind says what is certain and what to do; see publisher.Tx.Commit
	}
}

// A service that wants no daemon compensates in its own process, on its own pool.
func ExampleOpen_compensate() {
	ctx := context.Background()
	var db *sql.DB
	ob, err := transmsg.Open(ctx, transmsg.Config{
		Service: "orders", Store: mysql.SQL(db), AMQP: "amqp://shop:secret@broker:5672/",
		Compensate: compensator.Config{},
	})
	if err != nil {
		return
	}
	defer closeOutbox(ob)
	if _, err := ob.Publish(ctx, transmsg.Message{Exchange: "orders", RoutingKey: "order.paid"}); err != nil {
		return
	}
}
