package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

const (
	stormTotal = 5000
	stormStill = 8 * time.Second
)

// returnStormCheck locks the table while thousands of returns arrive: the
// writer stands still, and the reader of the connection must not (C01, C02). Under the
// lock some rows whose return is not written yet are deleted, as a late ack of another
// send would: each must be stored again.
func returnStormCheck() check {
	return check{
		name: "return-storm",
		about: "5,000 unroutable in a burst, the table locked for 8 s in the middle and some rows deleted under the " +
			"lock: 5,000 rows READY with 312",
		run: onServer(worldOptions{privateMaria: true}, func(ctx context.Context, w *world) (figures, error) {
			return runStorm(ctx, w)
		}),
	}
}

func runStorm(ctx context.Context, w *world) (figures, error) {
	exchange, queue := w.name("ex"), w.name("other")
	for _, err := range []error{
		w.broker.Exchange(exchange, []string{"direct", "topic"}[w.Rand.IntN(2)], nil),
		w.broker.Queue(amqptest.QueueSpec{Name: queue}),
		w.broker.Bind(queue, exchange, "bound"),
	} {
		if err != nil {
			return nil, err
		}
	}
	batches := stormBatches(w, exchange)
	svc, err := w.service(ctx, serviceSpec{})
	if err != nil {
		return nil, err
	}
	if err := svc.ready(ctx); err != nil {
		return nil, err
	}
	// In the middle: after a seeded number of returns was written.
	storm := &stormLock{world: w, after: 1 + w.Rand.IntN(stormTotal/2), most: 1 + w.Rand.IntN(100)}
	locked := make(chan error, 1)
	go func() { locked <- storm.lockInTheMiddle(ctx) }()
	ids := publishBurst(ctx, w, svc.pub, batches)
	if err := <-locked; err != nil {
		return nil, err
	}
	if err := svc.close(ctx); err != nil {
		return nil, err
	}
	figs := figures{
		"published": stormTotal, "batches": len(batches), "locked_after": storm.after, "deleted": storm.deleted,
	}
	return figs, storm.check(ctx, ids, queue, figs)
}

// stormBatches is the burst, in one call or in many.
func stormBatches(w *world, exchange string) [][]model.Message {
	per := []int{1, 10, 500, stormTotal}[w.Rand.IntN(4)]
	var batches [][]model.Message
	for n := 0; n < stormTotal; n += per {
		batch := make([]model.Message, per)
		for i := range batch {
			batch[i] = w.message(exchange, fmt.Sprintf("unbound-%d", w.Rand.IntN(50)), n+i, 1024)
		}
		batches = append(batches, batch)
	}
	return batches
}

// publishBurst publishes all batches at once, from up to 64 callers that wait
// for no outcome, and returns the ids after every receipt has its own.
func publishBurst(ctx context.Context, w *world, pub *publisher.Publisher, batches [][]model.Message) []string {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	work := make(chan []model.Message, len(batches))
	for _, b := range batches {
		work <- b
	}
	close(work)
	published := make(chan *publisher.Receipt, stormTotal)
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for batch := range work {
				receipts, err := pub.PublishBatch(ctx, batch)
				w.Breaches.Check(err == nil, "publish a batch of %d: %v", len(batch), err)
				for _, r := range receipts {
					published <- r
				}
			}
		})
	}
	callers.Wait()
	close(published)
	var ids []string
	for r := range published {
		o, err := r.Wait(ctx)
		w.Breaches.Check(err == nil && o.Kind == model.Returned, "outcome of %s: %v, %v", r.ID(), o, err)
		ids = append(ids, r.ID())
	}
	return ids
}

// stormLock is the lock in the middle of the storm.
type stormLock struct {
	*world
	after   int // returns in the table before it
	most    int // rows to delete under it
	deleted int
}

// lockInTheMiddle waits for the first returns in the table, locks it for 8 s and
// proves that somebody had to wait for the lock. It deletes rows before it lets go.
func (s *stormLock) lockInTheMiddle(ctx context.Context) error {
	err := until(ctx, time.Minute, fmt.Sprintf("%d returns are in the table", s.after),
		func(ctx context.Context) (bool, error) {
			n, err := s.db.count(ctx, "last_code = '312'")
			return n >= s.after, err
		})
	if err != nil {
		return err
	}
	conn, err := s.db.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	lock, unlock := "LOCK TABLES trans_message WRITE", "UNLOCK TABLES"
	if s.maria == nil {
		lock, unlock = "BEGIN; LOCK TABLE trans_message IN ACCESS EXCLUSIVE MODE", "COMMIT"
	}
	if _, err := conn.ExecContext(ctx, lock); err != nil {
		return err
	}
	end := time.NewTimer(stormStill)
	defer end.Stop()
	if err := until(ctx, stormStill, "a writer waits for the lock", func(ctx context.Context) (bool, error) {
		n, err := lockWaits(ctx, s.world)
		return n > 0, err
	}); err != nil {
		s.Breaches.Add("the lock did not bite: %v", err)
	}
	<-end.C
	if err := s.deleteUnwritten(ctx, conn); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, unlock)
	return err
}

// deleteUnwritten deletes rows whose return is not in the table yet.
func (s *stormLock) deleteUnwritten(ctx context.Context, conn *sql.Conn) error {
	for s.deleted < s.most {
		var id string
		err := conn.QueryRowContext(ctx,
			"SELECT id FROM trans_message WHERE last_code = '' ORDER BY id LIMIT 1").Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			break
		}
		if err != nil {
			return err
		}
		if _, err := conn.ExecContext(ctx, s.db.rebind("DELETE FROM trans_message WHERE id = ?"), id); err != nil {
			return err
		}
		s.deleted++
	}
	s.Breaches.AtLeast("rows deleted under the lock", int64(s.deleted), 1)
	return nil
}

func lockWaits(ctx context.Context, w *world) (int, error) {
	if w.maria != nil {
		return w.maria.LockWaits(ctx)
	}
	return w.db.number(ctx, "SELECT COUNT(*) FROM pg_stat_activity "+
		"WHERE datname = current_database() AND wait_event_type = 'Lock'")
}

func (s *stormLock) check(ctx context.Context, ids []string, queue string, figs figures) error {
	w := s.world
	rows, err := w.db.rows(ctx)
	if err != nil {
		return err
	}
	good := 0
	other := map[string]int{}
	for _, id := range ids {
		r, ok := rows[id]
		delete(rows, id)
		switch {
		case !ok:
			other["missing"]++
		case r.Status == "READY" && r.Code == "312" && r.Attempts == 1:
			good++
		default:
			other[fmt.Sprintf("%s %q attempts %d", r.Status, r.Code, r.Attempts)]++
		}
	}
	w.Breaches.Equal("rows READY with 312 and one attempt", good, stormTotal)
	w.Breaches.Equal("published rows in another state", other, map[string]int{})
	w.Breaches.Equal("rows that nobody published", len(rows), 0)
	restored, err := w.db.number(ctx, "SELECT COUNT(DISTINCT row_id) FROM trans_message_event WHERE kind = 'restore'")
	if err != nil {
		return err
	}
	w.Breaches.Equal("deleted rows that were stored again", restored, s.deleted)
	depth, err := w.broker.Depth(queue)
	if err != nil {
		return err
	}
	w.Breaches.Equal("messages in a queue bound elsewhere", depth, 0)
	figs["rows_312"] = good
	return nil
}
