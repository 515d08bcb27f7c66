package publisher_test

import (
	"context"
	"database/sql"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/mysql"
)

// Order is the business object of the examples.
type Order struct {
	Number string
	Amount int64
}

func placeOrder(ctx context.Context, db *sql.DB, pub *publisher.Publisher, order Order) error {
	msg, err := model.JSON("orders", "order.placed", order)
	if err != nil {
		return err
	}
	msg.Key = order.Number // "where is order 4711?"

	return publisher.InTx(ctx, pub, db, nil, func(ctx context.Context, tx *sql.Tx, out *publisher.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders (number, amount) VALUES (?, ?)",
			order.Number, order.Amount); err != nil {
			return err
		}
		return out.Publish(ctx, msg) // stored now, sent right after the commit
	})
}

func cancelOrder(ctx context.Context, db *sql.DB, pub *publisher.Publisher, number string) error {
	msg, err := model.JSON("orders", "order.cancelled", map[string]string{"number": number})
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing

	out := pub.Tx(tx)
	inside := out.Context(ctx) // with it, a pub.Publish by mistake is refused
	if _, err := tx.ExecContext(inside, "DELETE FROM orders WHERE number = ?", number); err != nil {
		return err
	}
	if err := out.Publish(inside, msg); err != nil {
		return err
	}
	_, err = out.Commit(ctx, tx.Commit) // instead of tx.Commit()
	return err
}

func handleOnce(ctx context.Context, db *sql.DB, d amqp.Delivery, effect func(*sql.Tx, []byte) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	res, err := tx.ExecContext(ctx, "INSERT IGNORE INTO handled (id) VALUES (?)", d.MessageId)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return err // a repeat: acknowledge it
	}
	if err := effect(tx, d.Body); err != nil {
		return err
	}
	return tx.Commit()
}

func waitForBroker(ctx context.Context, sender *confirms.Sender) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := sender.WaitReady(ctx) // the error has the last reason why no connection came about
	if errors.Is(err, context.DeadlineExceeded) {
		return nil // go on: messages are stored, and a compensator sends them
	}
	return err
}

func openPublisher(ctx context.Context, dsn, amqpURL string) (
	*publisher.Publisher, func(context.Context) error, error,
) {
	store, err := gormstore.Open(ctx, mysql.DSN(dsn), gormstore.Options{})
	if err != nil {
		return nil, nil, err
	}
	cfg, err := confirms.ParseURL(amqpURL)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	sender, err := confirms.Open(cfg) // never waits for the broker
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	pub, err := publisher.Open(publisher.Config{Service: "orders", Store: store, Sender: sender})
	if err != nil {
		return nil, nil, errors.Join(err, sender.Close(ctx), store.Close())
	}
	// On shutdown: drain, then close what the publisher stands on.
	stop := func(ctx context.Context) error {
		return errors.Join(pub.Close(ctx), sender.Close(ctx), store.Close())
	}
	return pub, stop, nil
}

// The whole of it: open once per process, publish inside business transactions.
func Example() {
	ctx := context.Background()
	pub, stop, err := openPublisher(ctx, "mysql://shop:secret@db:3306/shop", "amqp://shop:secret@broker:5672/")
	if err != nil {
		return // log it and exit
	}
	var db *sql.DB // the service's own pool on the same database
	if err := placeOrder(ctx, db, pub, Order{Number: "4711", Amount: 1999}); err != nil {
		return // the error's kind says what is certain and what to do; see publisher.Tx.Commit
	}
	if err := stop(ctx); err != nil {
		return // errors.Is(err, model.ErrNotDrained): a compensator sends the rest
	}
}

// A transaction by hand: Tx.Commit takes the place of the handle's own Commit.
func ExampleTx_Commit() {
	ctx := context.Background()
	var (
		pub *publisher.Publisher
		db  *sql.DB
		msg model.Message
	)
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return
	}
	defer tx.Rollback() //nolint:errcheck // after the commit there is nothing left to roll back
	out := pub.Tx(tx)
	if err := out.Publish(ctx, msg); err != nil {
		return
	}
	receipts, err := out.Commit(ctx, tx.Commit)
	if err != nil {
		return
	}
	for _, r := range receipts {
		if err := r.Err(ctx); err != nil {
			return // committed all the same; a compensator sends it again
		}
	}
}

// Outside a transaction: stored, sent, and the outcome of the first send.
func ExamplePublisher_Publish() {
	ctx := context.Background()
	var pub *publisher.Publisher
	receipt, err := pub.Publish(ctx, model.Message{
		ID:       model.StableID("order-paid", "4711"), // a repeated call is one message
		Exchange: "orders", RoutingKey: "order.paid", Body: []byte(`{"number":"4711"}`),
	})
	if err != nil {
		return
	}
	if err := receipt.Err(ctx); err != nil {
		return // stored all the same; a compensator tries again
	}
}
