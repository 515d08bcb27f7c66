package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// naiveTuning is what can be turned on the naive contestant. The best with the product's
// pool is found at the start of the run, so that it is not beaten by its settings. A
// larger pool is tried and printed too: it is what a service buys speed with, in
// connections of its database.
type naiveTuning struct {
	channels int  // callers are spread over them and publish concurrently
	conns    int  // of its own database pool
	wide     bool // more connections than the product has: only shown
}

// String implements fmt.Stringer.
func (t naiveTuning) String() string {
	return fmt.Sprintf("%d channels, %d database connections", t.channels, t.conns)
}

// naiveChoices are tried.
func naiveChoices(kind string) []naiveTuning {
	const base = gormstore.DefaultMaxOpenConns
	if kind == kindSQLite {
		return []naiveTuning{{1, 1, false}, {4, 1, false}}
	}
	return []naiveTuning{
		{1, base, false}, {4, base, false}, {8, base, false}, {1, 4 * base, true}, {4, 4 * base, true},
	}
}

// naive is what services do without a library: per message insert, publish, wait for the
// confirm, delete. It sends the same bytes through the same client and drivers.
type naive struct {
	sc     *Schema
	b      *Broker
	tuning naiveTuning
	pool   *sql.DB
	conn   *amqp.Connection
	lanes  []*amqp.Channel
}

func openNaive(ctx context.Context, sc *Schema, b *Broker, tuning naiveTuning) (*naive, error) {
	n := &naive{sc: sc, b: b, tuning: tuning}
	var err error
	if n.pool, err = sc.Fresh(tuning.conns); err != nil {
		return nil, err
	}
	if n.conn, err = b.Dial(ctx); err != nil {
		return nil, errors.Join(err, n.close())
	}
	for range tuning.channels {
		ch, err := confirming(n.conn)
		if err != nil {
			return nil, errors.Join(err, n.close())
		}
		countReturns(ch)
		n.lanes = append(n.lanes, ch)
	}
	return n, nil
}

func (n *naive) close() error {
	err := n.pool.Close()
	if n.conn != nil {
		err = errors.Join(err, n.conn.Close())
	}
	return err
}

// run sends messages from so many callers and returns the rate and the ids.
func (n *naive) run(ctx context.Context, callers, messages int, body []byte) (float64, [][]string, error) {
	ids := make([][]string, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range callers {
		wg.Go(func() {
			lane := n.lanes[i%len(n.lanes)]
			ids[i] = make([]string, share(messages, callers, i))
			for j := range ids[i] {
				ids[i][j] = model.NewID()
				if errs[i] = n.send(ctx, lane, ids[i][j], body); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return rate(messages, time.Since(start)), ids, errors.Join(errs...)
}

func (n *naive) send(ctx context.Context, lane *amqp.Channel, id string, body []byte) error {
	one := []string{id}
	if _, err := n.pool.ExecContext(ctx, insertText(n.sc.Kind, 1), insertArgs(n.sc.Kind, one, body)...); err != nil {
		return fmt.Errorf("naive insert: %w", err)
	}
	if err := publishOne(ctx, lane, n.b.Exchange, publishing(id, body)); err != nil {
		return fmt.Errorf("naive publish: %w", err)
	}
	if err := deleted(1)(n.pool.ExecContext(ctx, deleteText(n.sc.Kind, 1), deleteArgs(n.sc.Kind, one)...)); err != nil {
		return fmt.Errorf("naive delete: %w", err)
	}
	return nil
}
