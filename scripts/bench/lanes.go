package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/bench"
)

// laneBatch is how many rows the worker reads and deletes at once.
const laneBatch = 500

// lanes is a worker with some channels and one confirm in flight on each.
type lanes struct{ *outbox }

func lanesOf(channels int) func(context.Context, *bench.World) (contestant, error) {
	return func(ctx context.Context, w *bench.World) (contestant, error) {
		o, err := openOutbox(ctx, w, "lane_outbox", channels)
		if err != nil {
			return nil, err
		}
		return lanes{o}, nil
	}
}

func (l lanes) name() string { return fmt.Sprintf("%d channels, one confirm each", len(l.lanes)) }

// publish inserts, takes a free channel for the send and its confirm, and deletes.
func (l lanes) publish(ctx context.Context, callers, n int) (float64, error) {
	ids := newIDs(n)
	free := make(chan *amqp.Channel, len(l.lanes))
	for _, ch := range l.lanes {
		free <- ch
	}
	l.sc.Rest(ctx)
	start := time.Now()
	err := each(callers, n, func(_, i int) error {
		if err := l.insert(ctx, ids[i:i+1]); err != nil {
			return err
		}
		ch := <-free
		err := l.send(ctx, ch, ids[i], l.w.Body)
		free <- ch
		if err != nil {
			return err
		}
		return l.remove(ctx, ids[i:i+1])
	})
	r := rate(n, start)
	if err != nil {
		return 0, err
	}
	return l.finish(ctx, r, ids)
}

// drain reads a batch, sends it over all channels and deletes it.
func (l lanes) drain(ctx context.Context, n int) (float64, error) {
	ids, err := l.fill(ctx, n)
	if err != nil {
		return 0, err
	}
	l.sc.Rest(ctx)
	start := time.Now()
	for {
		batch, bodies, err := l.read(ctx)
		if err != nil {
			return 0, err
		}
		if len(batch) == 0 {
			break
		}
		err = each(len(l.lanes), len(batch), func(lane, i int) error {
			return l.send(ctx, l.lanes[lane], batch[i], bodies[i])
		})
		if err != nil {
			return 0, err
		}
		if err := l.remove(ctx, batch); err != nil {
			return 0, err
		}
	}
	return l.finish(ctx, rate(n, start), ids)
}

// read returns the next rows.
func (l lanes) read(ctx context.Context) (ids []string, bodies [][]byte, err error) {
	query := fmt.Sprintf("SELECT id, payload FROM %s ORDER BY id LIMIT %d", l.table, laneBatch)
	rows, err := l.db.QueryContext(ctx, query)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var body []byte
		if err := rows.Scan(&id, &body); err != nil {
			return nil, nil, err
		}
		ids, bodies = append(ids, id), append(bodies, body)
	}
	return ids, bodies, rows.Err()
}

func values(ids []string) iter.Seq[string] { return slices.Values(ids) }
