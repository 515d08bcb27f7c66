package transmsg_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/transmsg/transmsg"
	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/consumer/effect"
	"github.com/transmsg/transmsg/metrics"
	"github.com/transmsg/transmsg/publisher"
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

func serve(ctx context.Context, dsn, url string, work func(context.Context, *transmsg.Outbox) error) (err error) {
	ob, err := transmsg.Open(ctx, transmsg.Config{Service: "orders", Store: mysql.DSN(dsn), AMQP: url})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drain(ob)) }() // ob.Close, with a deadline
	return work(ctx, ob)
}

// drain waits for what is on its way; an error says how many messages are left to a compensator.
func drain(ob *transmsg.Outbox) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return ob.Close(ctx)
}

func writeInvoices(ctx context.Context, url string, db *sql.DB, ob *transmsg.Outbox) error {
	once, err := effect.New(effect.Config{Consumer: "invoices", Store: ob.Store(), Publisher: ob.Publisher()})
	if err != nil {
		return err
	}
	broker, err := confirms.ParseURL(url)
	if err != nil {
		return err
	}
	sender, err := confirms.Open(broker) // for the copies: retries and dead letters
	if err != nil {
		return err
	}
	c, err := consumer.New(consumer.Config{
		Addrs: broker.Addrs, VHost: broker.VHost, Credentials: broker.Credentials, TLS: broker.TLS, Sender: sender,
		Queues: []consumer.Queue{{
			Name: "invoices", DeadLetterExchange: "dead-letters", Handler: once.InTx(db, nil, writeInvoice),
		}},
		Redeliveries: once,
	})
	if err == nil {
		err = c.Run(ctx) // until ctx ends; what its handlers began is finished first
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(err, sender.Close(closing))
}

// writeInvoice has its effect by tx and publishes by out. A message that comes again does not get here.
func writeInvoice(ctx context.Context, tx *sql.Tx, out *publisher.Tx, m *consumer.Message) error {
	if _, err := tx.ExecContext(ctx, "INSERT INTO invoices (message) VALUES (?)", m.Body); err != nil {
		return err // rolled back, and tried again after 1 s, 5 s, 30 s and 5 min
	}
	return out.Publish(ctx, transmsg.Message{Exchange: "orders", RoutingKey: "invoice.written", Body: m.Body})
}

func openMeasured(ctx context.Context, dsn, url string, registry prometheus.Registerer) (*transmsg.Outbox, error) {
	m, err := metrics.New(metrics.Config{})
	if err != nil {
		return nil, err
	}
	if err := registry.Register(m); err != nil {
		return nil, err
	}
	return transmsg.Open(ctx, transmsg.Config{Service: "orders", Store: mysql.DSN(dsn), AMQP: url, Metrics: m})
}

// Open once per process, publish inside business transactions.
func Example() {
	var db *sql.DB // the service's own pool on the same database
	err := serve(context.Background(), "mysql://shop:secret@db:3306/shop", "amqp://shop:secret@broker:5672/",
		func(ctx context.Context, ob *transmsg.Outbox) error {
			return placeOrder(ctx, db, ob, Order{Number: "4711", Amount: 1999})
		})
	if err != nil {
		fmt.Println(err) // its kind says what is certain and what to do; see publisher.Tx.Commit
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
	if _, err := ob.Publish(ctx, transmsg.Message{Exchange: "orders", RoutingKey: "order.paid"}); err != nil {
		fmt.Println(err)
	}
	if err := drain(ob); err != nil {
		fmt.Println(err)
	}
}
