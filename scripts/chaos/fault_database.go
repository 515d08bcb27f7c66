package main

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"
)

func databaseStop(ctx context.Context, f *fault) (proof, error) {
	return f.databaseDown(ctx, f.db.stop)
}

func databaseKill(ctx context.Context, f *fault) (proof, error) {
	return f.databaseDown(ctx, f.db.kill)
}

func (f *fault) databaseDown(ctx context.Context, down func() error) (proof, error) {
	if err := down(); err != nil {
		return proof{}, err
	}
	p, err := f.hold(ctx, "calls and writes failed", f.failures)
	return p, errors.Join(err, f.db.start(context.WithoutCancel(ctx)))
}

func databaseReadOnly(ctx context.Context, f *fault) (proof, error) {
	if err := f.db.readOnly(ctx, true); err != nil {
		return proof{}, err
	}
	p, err := f.hold(ctx, "calls and writes failed", f.failures)
	return p, errors.Join(err, f.db.readOnly(context.WithoutCancel(ctx), false))
}

// tableLocked keeps everybody off the table for eight seconds.
func tableLocked(ctx context.Context, f *fault) (proof, error) {
	unlock, err := f.db.lock(ctx)
	if err != nil {
		return proof{}, err
	}
	most := 0
	p, err := f.hold(ctx, "connections waiting for the lock, or calls failed for it", func() int {
		if n, err := f.db.waiting(ctx); err == nil {
			most = max(most, n)
		}
		return most + f.failures()
	})
	return p, errors.Join(err, unlock())
}

// deadlockStorm makes the services' transactions lock their own rows in any order, and
// locks messages against the order that the product deletes and settles them in.
func deadlockStorm(ctx context.Context, f *fault) (proof, error) {
	if err := f.fleet.order(orders{Storm: true}); err != nil {
		return proof{}, err
	}
	rivals, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { f.rival(rivals) })
	p, err := f.hold(ctx, "calls and writes that met a deadlock",
		either(f.events(wordCall, "1213", "40P01", "missing after commit"), f.events(wordStoreError, "1213", "40P01")))
	stop()
	wg.Wait()
	return p, errors.Join(err, f.fleet.order(orders{}))
}

// rival locks rows from the youngest to the oldest, again and again. Its own errors are
// what it is there for.
func (f *fault) rival(ctx context.Context) {
	for ctx.Err() == nil {
		if tx, err := f.db.pool().BeginTx(ctx, nil); err == nil {
			_ = lockBackwards(ctx, tx)
			_ = tx.Rollback()
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond): // lets others in
		}
	}
}

func lockBackwards(ctx context.Context, tx *sql.Tx) error {
	for range 5 {
		// As a subquery, so that there is nothing to read.
		_, err := tx.ExecContext(ctx,
			"SELECT COUNT(*) FROM (SELECT id FROM trans_message ORDER BY id DESC LIMIT 20 FOR UPDATE) AS youngest")
		if err != nil {
			return err
		}
	}
	return nil
}
