package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
)

// clocksSlack is how near to an instant it is not said whether a message is due.
const clocksSlack = 10 * time.Minute

// clocksCheck lets the database's clock be hours or months off the process's, and step
// between rounds, under messages with every kind of NotBefore.
func clocksCheck() check {
	return check{
		name: "clocks",
		about: "a database whose clock is off and steps: no NotBefore is sent early or held back, no DEAD row is " +
			"purged early, no backlog is killed by age",
		stores: "all", // on sqlite the database's clock is the process's, and is not moved
		run: inWorld(worldOptions{}, func(ctx context.Context, w *world) (figures, error) {
			c := &clocks{
				world: w, exchange: w.name("ex"), queue: w.name("main"), key: w.name("key"), plain: w.dsn,
				waits: map[string]int64{}, seen: figures{},
			}
			if err := w.route(c.exchange, "direct", c.key, amqptest.QueueSpec{Name: c.queue}); err != nil {
				return nil, err
			}
			return c.run(ctx)
		}),
	}
}

type clocks struct {
	*world
	exchange, queue, key string
	plain                string           // the database, with its own clock
	waits                map[string]int64 // instants of the messages that were not delivered, by id
	unrouted             string           // of this round: stored long ago, for no queue
	dead                 []string
	seen                 figures
}

func (c *clocks) count(what string, n int) {
	had, _ := c.seen[what].(int)
	c.seen[what] = had + n
}

func (c *clocks) run(ctx context.Context) (figures, error) {
	rounds := 5 + c.Rand.IntN(4)
	for n := range rounds {
		by := c.skew()
		if err := c.round(ctx, n, by); err != nil {
			return nil, fmt.Errorf("round %d, %v off: %w", n, by, err)
		}
	}
	c.count("rounds", rounds)
	c.count("waiting", len(c.waits))
	return c.seen, nil
}

// skew is how far the database's clock is off in a round: minutes to a year, either way.
func (c *clocks) skew() time.Duration {
	if c.Store == "sqlite" {
		return 0
	}
	unit := []time.Duration{time.Minute, time.Hour, 24 * time.Hour}[c.Rand.IntN(3)]
	by := time.Duration(25+c.Rand.IntN(340)) * unit
	if c.Rand.IntN(2) == 0 {
		return -by
	}
	return by
}

// round publishes under one clock, lets a compensator send what is due, and judges.
func (c *clocks) round(ctx context.Context, n int, by time.Duration) (err error) {
	svc, err := c.underClock(ctx, by)
	if err != nil {
		return err
	}
	now, err := svc.store.Now(ctx)
	if err != nil {
		return err
	}
	if err := svc.ready(ctx); err != nil {
		return err
	}
	for kind, at := range c.instants(now) {
		if err := c.publish(ctx, svc, at, (n+kind)%2 == 0); err != nil {
			return err
		}
	}
	if err := c.old(ctx, svc, now); err != nil {
		return err
	}
	if err := svc.close(ctx); err != nil {
		return err
	}
	d, err := c.compensate("--interval", "200ms", "--max-age", "2h", "--dead-retention", "2562047h",
		"--event-retention", "2562047h")
	if err != nil {
		return err
	}
	err = until(ctx, time.Minute, "what is due is sent", func(ctx context.Context) (bool, error) {
		return c.sentAll(ctx, now)
	})
	if err != nil {
		c.Breaches.Add("round %d, %v off: %v: %s", n, by, err, tailOf(filepath.Join(c.Dir, "compensator.log")))
	}
	if err := d.stop(); err != nil {
		return err
	}
	return c.judge(ctx, now, by)
}

// underClock opens the service on the database with its clock off by so much. On PostgreSQL
// the clock steps under its open connections.
func (c *clocks) underClock(ctx context.Context, by time.Duration) (*service, error) {
	var err error
	switch c.Store {
	case "mysql":
		c.dsn = dbtest.SkewMySQL(c.plain, by)
		return c.service(ctx, serviceSpec{})
	case "postgres":
		if c.dsn, err = dbtest.SkewPostgres(ctx, c.plain, -by); err != nil {
			return nil, err
		}
		svc, err := c.service(ctx, serviceSpec{})
		if err != nil {
			return nil, err
		}
		_, err = dbtest.SkewPostgres(ctx, c.plain, by)
		return svc, err
	}
	return c.service(ctx, serviceSpec{})
}

// instants are of every kind, by the database's clock at now; 0 is none.
func (c *clocks) instants(now int64) []int64 {
	far := func() int64 { return (time.Duration(1+c.Rand.IntN(700)) * time.Hour).Milliseconds() }
	return []int64{
		0, 1, now - far(), now + far(), now - far(), now + far(),
		(now + time.Now().UnixMilli()) / 2, // passed by one of the two clocks alone
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).UnixMilli(),
	}
}

// publish stores one message, by itself or in a transaction.
func (c *clocks) publish(ctx context.Context, svc *service, at int64, inTx bool) error {
	m := c.message(c.exchange, c.key, len(c.waits), 512)
	if m.ID = model.NewID(); at != 0 {
		m.NotBefore = time.UnixMilli(at)
	}
	c.count("published", 1)
	c.waits[m.ID] = at
	if !inTx {
		r, err := svc.pub.Publish(ctx, m)
		if err == nil {
			_, err = r.Wait(ctx)
		}
		return err
	}
	handle, err := openTable(c.Store, c.dsn)
	if err != nil {
		return err
	}
	defer handle.db.Close()
	tx, err := handle.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	out := svc.pub.Tx(tx)
	if err := out.Publish(ctx, m); err != nil {
		return err
	}
	_, err = out.Commit(ctx, tx.Commit)
	return err
}

// old stores, ten days before now, a message that no queue takes, as if an outage had kept it
// from its first answer, and a DEAD one.
func (c *clocks) old(ctx context.Context, svc *service, now int64) error {
	before := now - (10 * 24 * time.Hour).Milliseconds()
	for _, status := range []model.Status{model.Ready, model.Dead} {
		m := model.Message{ID: model.NewID(), Exchange: c.exchange, RoutingKey: "nobody-" + letters(c.Rand, 8)}
		row := model.NewTransMessage(serviceName, &m, false)
		row.Status, row.CreatedAt, row.UpdatedAt, row.NextAttemptAt = status, before, before, before
		if status == model.Dead {
			row.NextAttemptAt, c.dead = now+(1000*24*time.Hour).Milliseconds(), append(c.dead, m.ID)
		} else {
			c.unrouted = m.ID
		}
		if _, err := svc.store.Import(ctx, []model.TransMessage{row}, "accept"); err != nil {
			return err
		}
	}
	return nil
}

// stored are the rows' status, due time and attempts, by id.
func (c *clocks) stored(ctx context.Context) (map[string]clockRow, error) {
	rows, err := c.db.db.QueryContext(ctx, "SELECT id, status, next_attempt_at, attempts FROM trans_message")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]clockRow{}
	for rows.Next() {
		var id string
		var r clockRow
		if err := rows.Scan(&id, &r.status, &r.due, &r.attempts); err != nil {
			return nil, err
		}
		out[id] = r
	}
	return out, rows.Err()
}

type clockRow struct {
	status   string
	due      int64
	attempts int
}

// sentAll says whether nothing is left that is due for sure, and what no queue takes was
// answered.
func (c *clocks) sentAll(ctx context.Context, now int64) (bool, error) {
	rows, err := c.stored(ctx)
	if err != nil {
		return false, err
	}
	for id, at := range c.waits {
		if _, there := rows[id]; there && at < now-clocksSlack.Milliseconds() {
			return false, nil
		}
	}
	return rows[c.unrouted].attempts > 0, nil
}

// judge compares what arrived and what stayed with the database's clock.
func (c *clocks) judge(ctx context.Context, now int64, by time.Duration) error {
	deliveries, err := c.harvest(ctx, c.queue)
	if err != nil {
		return err
	}
	got := map[string]bool{}
	for _, d := range deliveries {
		at, known := c.waits[d.MessageId]
		c.Breaches.Check(known || got[d.MessageId], "%v off: %s arrived, which was not waited for", by, d.MessageId)
		c.Breaches.Check(at <= now+clocksSlack.Milliseconds(), "%v off: %s arrived %v early", by, d.MessageId,
			model.MillisToDuration(at-now))
		got[d.MessageId] = true
		delete(c.waits, d.MessageId)
		c.count("delivered", 1)
	}
	rows, err := c.stored(ctx)
	if err != nil {
		return err
	}
	for id, at := range c.waits {
		r, there := rows[id]
		if off := at - now; max(off, -off) < clocksSlack.Milliseconds() {
			continue
		}
		c.Breaches.Check(there && r.status == string(model.Ready) && r.due == at,
			"%v off: %s, not before %d, is %+v", by, id, at, r)
	}
	// Those of earlier rounds may be old by this round's clock.
	c.Breaches.Check(rows[c.unrouted].status == string(model.Ready),
		"%v off: %s is %+v after its first answer: killed by the age of an outage", by, c.unrouted, rows[c.unrouted])
	for _, id := range c.dead {
		c.Breaches.Check(rows[id].status == string(model.Dead), "%v off: the DEAD %s was purged", by, id)
	}
	return nil
}
