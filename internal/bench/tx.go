package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/transmsg/transmsg/publisher"
)

// txConns is the size of the service's own pool in the tx workload, with the message and
// without.
const txConns = 32

// business is a service's own table and pool.
type business struct {
	db    *sql.DB
	conns int
}

func openBusiness(ctx context.Context, sc *Schema) (*business, error) {
	conns := txConns
	if sc.Kind == kindSQLite {
		conns = 1
	}
	db, err := sc.Fresh(conns)
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, "CREATE TABLE bench_orders (id VARCHAR(36) PRIMARY KEY, "+
		"customer VARCHAR(64) NOT NULL, amount INT NOT NULL)")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create the business table: %w", err), db.Close())
	}
	return &business{db: db, conns: conns}, nil
}

// plain runs n transactions of one business row.
func (b *business) plain(ctx context.Context, sc *Schema, callers, n int) (float64, error) {
	start := time.Now()
	err := concurrently(callers, n, func() error {
		tx, err := b.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := addOrder(ctx, tx, sc.Kind); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	})
	return rate(n, time.Since(start)), err
}

// withMessage runs the same transactions with one message each.
func (b *business) withMessage(ctx context.Context, p *product, callers, n int, body []byte) (*outcome, error) {
	m := message(p.b.Exchange, body)
	return p.measure(ctx, n, func(ctx context.Context, pub *publisher.Publisher, o *outcome, _ *atomic.Int64) error {
		ids := make([]string, n)
		o.ids = [][]string{ids}
		var next atomic.Int64
		return concurrently(callers, n, func() error {
			m := m
			m.ID = uuid.Must(uuid.NewV7()).String() // no receipt tells it
			ids[next.Add(1)-1] = m.ID
			return publisher.InTx(ctx, pub, b.db, nil, func(ctx context.Context, tx *sql.Tx, out *publisher.Tx) error {
				if err := addOrder(ctx, tx, p.sc.Kind); err != nil {
					return err
				}
				return out.Publish(ctx, m)
			})
		})
	})
}

func addOrder(ctx context.Context, tx *sql.Tx, kind string) error {
	query := "INSERT INTO bench_orders (id, customer, amount) VALUES (?, ?, ?)"
	if kind == kindPostgres {
		query = "INSERT INTO bench_orders (id, customer, amount) VALUES ($1, $2, $3)"
	}
	_, err := tx.ExecContext(ctx, query, uuid.Must(uuid.NewV7()).String(), "customer", 4711)
	return err
}

// close ends the pool; the table goes with the schema.
func (b *business) close() error { return b.db.Close() }

// concurrently calls f n times from so many goroutines and stops at a goroutine's first
// error.
func concurrently(callers, n int, f func() error) error {
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for range share(n, callers, i) {
				if errs[i] = f(); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
