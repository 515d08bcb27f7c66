package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/model"
)

// The raw loops: what the product is measured against. This file is all of them. They use
// the client library and the driver and nothing of the product but the shape of its row,
// and do nothing that the product need not do.

// rawWindow is the most unconfirmed messages per channel, the product's default too.
const rawWindow = 1000

// rawPublish publishes n messages over one connection: persistent, mandatory, each
// confirmed. The rate counts until the last confirm. It returns the ids.
func rawPublish(ctx context.Context, b *Broker, channels, n int, body []byte) (float64, [][]string, error) {
	conn, err := b.Dial(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer conn.Close()
	lanes := make([]*amqp.Channel, channels)
	for i := range lanes {
		if lanes[i], err = confirming(conn); err != nil {
			return 0, nil, err
		}
	}
	ids := make([][]string, channels)
	errs := make([]error, channels)
	var wg sync.WaitGroup
	start := time.Now()
	for i, ch := range lanes {
		wg.Go(func() { ids[i], errs[i] = rawLane(ctx, b, ch, share(n, channels, i), body) })
	}
	wg.Wait()
	return rate(n, time.Since(start)), ids, errors.Join(errs...)
}

// rawLane is one channel: this goroutine publishes, another one waits for the confirms in
// order, and rawWindow may be outstanding.
func rawLane(ctx context.Context, b *Broker, ch *amqp.Channel, n int, body []byte) ([]string, error) {
	returned := countReturns(ch)
	window := make(chan *amqp.DeferredConfirmation, rawWindow)
	var nacks int
	var waiter sync.WaitGroup
	waiter.Go(func() {
		for dc := range window {
			if !dc.Wait() {
				nacks++
			}
		}
	})
	ids := make([]string, n)
	var err error
	for i := range ids {
		ids[i] = model.NewID()
		var dc *amqp.DeferredConfirmation
		dc, err = ch.PublishWithDeferredConfirmWithContext(ctx, b.Exchange, Key, true, false, publishing(ids[i], body))
		if err != nil {
			break
		}
		window <- dc
	}
	close(window)
	waiter.Wait()
	if refused := nacks + int(returned.Load()); err == nil && refused > 0 {
		err = fmt.Errorf("raw publish: %d messages nacked or returned", refused)
	}
	return ids, err
}

// rawStore inserts n rows, so many a statement, and deletes each batch by primary key, on
// so many workers. Every statement commits by itself.
func rawStore(ctx context.Context, sc *Schema, workers, perStatement, n int, body []byte) (float64, error) {
	errs := make([]error, workers)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range workers {
		wg.Go(func() { errs[i] = rawWorker(ctx, sc, perStatement, share(n, workers, i), body) })
	}
	wg.Wait()
	return rate(n, time.Since(start)), errors.Join(errs...)
}

func rawWorker(ctx context.Context, sc *Schema, perStatement, n int, body []byte) error {
	ids := make([]string, min(perStatement, n))
	insert, remove := insertText(sc.Kind, len(ids)), deleteText(sc.Kind, len(ids))
	for n > 0 {
		if n < len(ids) {
			ids = ids[:n]
			insert, remove = insertText(sc.Kind, n), deleteText(sc.Kind, n)
		}
		for i := range ids {
			ids[i] = model.NewID()
		}
		if _, err := sc.Pool.ExecContext(ctx, insert, insertArgs(sc.Kind, ids, body)...); err != nil {
			return fmt.Errorf("raw insert: %w", err)
		}
		if err := deleted(len(ids))(sc.Pool.ExecContext(ctx, remove, deleteArgs(sc.Kind, ids)...)); err != nil {
			return fmt.Errorf("raw delete: %w", err)
		}
		n -= len(ids)
	}
	return nil
}

// rawTimes times n messages one after the other: a single-row insert, then a confirmed
// publish, as a careful program of one caller would do. In turn, since a loop of inserts
// alone finds its processes awake and its caches warm, which one caller's are not. The
// rows are deleted afterwards, untimed.
func rawTimes(ctx context.Context, sc *Schema, b *Broker, n int, body []byte) (
	inserts, publishes []time.Duration, ids []string, err error,
) {
	conn, err := b.Dial(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	defer conn.Close()
	ch, err := confirming(conn)
	if err != nil {
		return nil, nil, nil, err
	}
	countReturns(ch)
	inserts, publishes, ids = make([]time.Duration, n), make([]time.Duration, n), make([]string, n)
	insert := insertText(sc.Kind, 1)
	for i := range ids {
		ids[i] = model.NewID()
		start := time.Now()
		if _, err := sc.Pool.ExecContext(ctx, insert, insertArgs(sc.Kind, ids[i:i+1], body)...); err != nil {
			return nil, nil, nil, fmt.Errorf("raw insert: %w", err)
		}
		stored := time.Now()
		if err := publishOne(ctx, ch, b.Exchange, publishing(ids[i], body)); err != nil {
			return nil, nil, nil, err
		}
		inserts[i], publishes[i] = stored.Sub(start), time.Since(stored)
	}
	for left := ids; len(left) > 0; {
		k := min(len(left), 500)
		if _, err := sc.Pool.ExecContext(ctx, deleteText(sc.Kind, k), deleteArgs(sc.Kind, left[:k])...); err != nil {
			return nil, nil, nil, fmt.Errorf("raw delete: %w", err)
		}
		left = left[k:]
	}
	return inserts, publishes, ids, nil
}

// publishOne publishes one message and waits for its confirm.
func publishOne(ctx context.Context, ch *amqp.Channel, exchange string, p amqp.Publishing) error {
	dc, err := ch.PublishWithDeferredConfirmWithContext(ctx, exchange, Key, true, false, p)
	if err != nil {
		return err
	}
	ok, err := dc.WaitContext(ctx)
	if err == nil && !ok {
		err = errors.New("nacked")
	}
	return err
}

// publishing has the properties of the product's messages.
func publishing(id string, body []byte) amqp.Publishing {
	return amqp.Publishing{
		ContentType: contentType, DeliveryMode: amqp.Persistent, MessageId: id, Timestamp: time.Now(), Body: body,
	}
}

func confirming(conn *amqp.Connection) (*amqp.Channel, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	return ch, ch.Confirm(false)
}

// countReturns takes the channel's returns, as every careful sender must.
func countReturns(ch *amqp.Channel) *atomic.Int64 {
	var n atomic.Int64
	returns := ch.NotifyReturn(make(chan amqp.Return, rawWindow))
	go func() { // ends with the channel
		for range returns {
			n.Add(1)
		}
	}()
	return &n
}

const (
	rowColumns = "id, service, message_key, exchange, routing_key, properties, payload, size, " +
		"next_attempt_at, created_at, updated_at, status"
	rowParams = 11
)

// insertText inserts rows of the product's shape; PostgreSQL gets arrays, so that it
// prepares one statement for any number.
func insertText(kind string, rows int) string {
	head := "INSERT INTO trans_message (" + rowColumns + ") "
	if kind == kindPostgres {
		return head + "SELECT u.*, 'READY' FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], " +
			"$6::bytea[], $7::bytea[], $8::int[], $9::bigint[], $10::bigint[], $11::bigint[]) AS u"
	}
	tuple := "(" + strings.Repeat("?,", rowParams) + "'READY'),"
	return head + "VALUES " + strings.TrimSuffix(strings.Repeat(tuple, rows), ",")
}

func insertArgs(kind string, ids []string, body []byte) []any {
	now := time.Now().UnixMilli()
	due := now + time.Hour.Milliseconds()
	size := len(body) + len(rowProperties)
	if kind == kindPostgres {
		n := len(ids)
		return []any{
			ids, repeat(service, n), repeat("", n), repeat(rowExchange, n), repeat(Key, n),
			repeat([]byte(rowProperties), n), repeat(body, n), repeat(size, n),
			repeat(due, n), repeat(now, n), repeat(now, n),
		}
	}
	args := make([]any, 0, rowParams*len(ids))
	for _, id := range ids {
		args = append(args, id, service, "", rowExchange, Key, []byte(rowProperties), body, size, due, now, now)
	}
	return args
}

func deleteText(kind string, rows int) string {
	if kind == kindPostgres {
		return "DELETE FROM trans_message WHERE id = ANY($1)"
	}
	return "DELETE FROM trans_message WHERE id IN (" + strings.TrimSuffix(strings.Repeat("?,", rows), ",") + ")"
}

func deleteArgs(kind string, ids []string) []any {
	if kind == kindPostgres {
		return []any{ids}
	}
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	return args
}

func repeat[T any](v T, n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// deleted checks that a statement met n rows.
func deleted(n int) func(sql.Result, error) error {
	return func(res sql.Result, err error) error {
		if err != nil {
			return err
		}
		got, err := res.RowsAffected()
		if err == nil && got != int64(n) {
			err = fmt.Errorf("%d rows deleted, want %d", got, n)
		}
		return err
	}
}

// share is what the i-th of parts gets of n.
func share(n, parts, i int) int { return (n*(i+1))/parts - (n*i)/parts }
