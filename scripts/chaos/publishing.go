package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/libtnb/sqlite"
	"golang.org/x/time/rate"

	"github.com/transmsg/transmsg/publisher"
)

// counters is the number of rows of the business table that transactions update.
const counters = 64

// publishing is a publisher process.
type publishing struct {
	*child
	pub    *publisher.Publisher
	db     *sql.DB // the service's own pool
	ledger *ledger
	orders *control
	pace   *rate.Limiter
}

// runPublisher publishes until ctx ends, then drains as a service does.
func runPublisher(ctx context.Context, c *child) (err error) {
	p := &publishing{child: c, orders: newControl(c.spec.path(controlSuffix))}
	p.pace = rate.NewLimiter(rate.Limit(c.spec.Rate), 20)
	if p.ledger, err = openLedger(c.spec.path(ledgerSuffix)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.ledger.close()) }()
	if p.db, err = openPool(c.spec.Dialect, c.spec.DSN); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.db.Close()) }()
	p.pub, err = publisher.Open(publisher.Config{
		Service: serviceName, Store: c.store, Sender: c.sender, Instance: c.spec.Name,
		SendBudget: sendBudget, MaxUnsettled: 2000, Policy: c.spec.policy(), Logger: c.log,
		Observers: []publisher.Observer{{
			Restored:   func(id string) { c.book.event(wordRestored, id) },
			StoreError: func(op string, err error) { c.book.event(wordStoreError, op+" "+err.Error()) },
		}},
	})
	if err != nil {
		return err
	}
	failed := p.work(ctx)
	// Longer than a database fault: what is acked should be deleted.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	closed := p.pub.Close(closing)
	c.book.event(wordStopped, fmt.Sprint(closed))
	return errors.Join(failed, notDrained(closed))
}

// work runs the callers until ctx ends, or until one cannot keep its ledger.
func (p *publishing) work(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for range p.spec.Workers {
		r := rand.New(rand.NewPCG(p.rng.Uint64(), p.rng.Uint64()))
		wg.Go(func() {
			c := &caller{publishing: p, rng: r}
			for ctx.Err() == nil {
				if err := c.act(ctx); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// openPool opens the database as a service would.
func openPool(dialect, dsn string) (*sql.DB, error) {
	driver := map[string]string{"mysql": "mysql", "postgres": "pgx", "sqlite": sqlite.DriverName}[dialect]
	if dialect == "sqlite" {
		path := strings.TrimPrefix(dsn, "sqlite:")
		dsn = "file:" + (&url.URL{Path: path}).EscapedPath() + "?_txlock=immediate&_pragma=busy_timeout(5000)"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(8)
	// A connection to a primary that was demoted never leads to the new one.
	db.SetConnMaxLifetime(5 * time.Second)
	return db, nil
}

// bump is a statement of the service's business.
func bump(ctx context.Context, tx *sql.Tx, id int) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE chaos_counter SET n = n + 1 WHERE id = %d", id))
	return err
}
