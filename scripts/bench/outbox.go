package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/bench"
	"github.com/transmsg/transmsg/model"
)

// outbox is the plain table that the peers without one of their own use, and what they
// share: a pool and channels in confirm mode.
type outbox struct {
	w     *bench.World
	sc    *bench.Schema
	kind  string
	table string
	db    *sql.DB
	conn  *amqp.Connection
	lanes []*amqp.Channel
}

func openOutbox(ctx context.Context, w *bench.World, table string, channels int) (*outbox, error) {
	sc, err := w.NewSchema(ctx)
	if err != nil {
		return nil, err
	}
	o := &outbox{w: w, sc: sc, kind: sc.Kind, table: table}
	if o.db, err = sc.Fresh(peerConns); err != nil {
		return nil, err
	}
	blob := "LONGBLOB"
	switch sc.Kind {
	case "postgres":
		blob = "BYTEA"
	case "sqlite":
		blob = "BLOB"
	}
	_, err = o.db.ExecContext(ctx, "CREATE TABLE "+table+" (id VARCHAR(36) NOT NULL PRIMARY KEY, "+
		"exchange VARCHAR(255) NOT NULL, routing_key VARCHAR(255) NOT NULL, payload "+blob+" NOT NULL, "+
		"created_at BIGINT NOT NULL)")
	if err != nil {
		return nil, errors.Join(err, o.close())
	}
	if o.conn, err = w.Broker.Dial(ctx); err != nil {
		return nil, errors.Join(err, o.close())
	}
	for range channels {
		ch, err := o.conn.Channel()
		if err == nil {
			err = ch.Confirm(false)
		}
		if err != nil {
			return nil, errors.Join(err, o.close())
		}
		o.lanes = append(o.lanes, ch)
	}
	return o, nil
}

func (o *outbox) pool() *sql.DB { return o.db }

func (o *outbox) close() error {
	var err error
	if o.conn != nil {
		err = o.conn.Close()
	}
	return errors.Join(err, o.db.Close())
}

// send publishes one message and waits for its confirm.
func (o *outbox) send(ctx context.Context, ch *amqp.Channel, id string, body []byte) error {
	dc, err := ch.PublishWithDeferredConfirmWithContext(ctx, o.w.Broker.Exchange, bench.Key, true, false,
		amqp.Publishing{
			ContentType: "application/json", DeliveryMode: amqp.Persistent, MessageId: id, Timestamp: time.Now(),
			Body: body,
		})
	if err != nil {
		return err
	}
	ok, err := dc.WaitContext(ctx)
	if err == nil && !ok {
		err = errors.New("nacked")
	}
	return err
}

// insert stores rows in one statement.
func (o *outbox) insert(ctx context.Context, ids []string) error {
	var values []string
	var args []any
	for _, id := range ids {
		values = append(values, "("+o.params(len(args), 5)+")")
		args = append(args, id, o.w.Broker.Exchange, bench.Key, o.w.Body, time.Now().UnixMilli())
	}
	_, err := o.db.ExecContext(ctx, "INSERT INTO "+o.table+
		" (id, exchange, routing_key, payload, created_at) VALUES "+strings.Join(values, ","), args...)
	return err
}

// remove deletes rows in one statement.
func (o *outbox) remove(ctx context.Context, ids []string) error {
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	_, err := o.db.ExecContext(ctx, "DELETE FROM "+o.table+" WHERE id IN ("+o.params(0, len(ids))+")", args...)
	return err
}

// params are n placeholders behind so many others.
func (o *outbox) params(before, n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = "?"
		if o.kind == "postgres" {
			out[i] = fmt.Sprintf("$%d", before+i+1)
		}
	}
	return strings.Join(out, ",")
}

// fill stores n rows, 500 a statement, and returns their ids. Untimed.
func (o *outbox) fill(ctx context.Context, n int) ([]string, error) {
	ids := newIDs(n)
	for rest := ids; len(rest) > 0; {
		k := min(500, len(rest))
		if err := o.insert(ctx, rest[:k]); err != nil {
			return nil, err
		}
		rest = rest[k:]
	}
	return ids, nil
}

// left counts rows.
func (o *outbox) left(ctx context.Context) (int, error) {
	var n int
	err := o.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+o.table).Scan(&n)
	return n, err
}

// finish checks the table and the queue.
func (o *outbox) finish(ctx context.Context, rate float64, ids []string) (float64, error) {
	n, err := o.left(ctx)
	if err == nil && n > 0 {
		err = fmt.Errorf("%d rows are left", n)
	}
	if err != nil {
		return 0, err
	}
	return rate, o.w.Check(ctx, values(ids))
}

func newIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = model.NewID()
	}
	return ids
}
