package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/libtnb/sqlite"
	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher/gormtx"
)

// handlerRuns is how many handlers one run makes.
const handlerRuns = 120

// handlerCheck makes handlers of an order service out of the usual mistakes and runs them.
// Each stores one order and publishes one message of the same id. No compensator runs.
func handlerCheck() check {
	return check{
		name: "handler",
		about: "handlers with the usual mistakes, by InTx, gorm and by hand: " +
			"no order without its message, no message without its order, and the error names the cause",
		stores: "all",
		run: inWorld(worldOptions{}, func(ctx context.Context, w *world) (figures, error) {
			h := &handlers{world: w, exchange: w.name("ex"), queue: w.name("main"), key: w.name("key")}
			if err := h.prepare(ctx); err != nil {
				return nil, err
			}
			return h.run(ctx)
		}),
	}
}

type handlers struct {
	*world
	exchange, queue, key string
	svc                  *service
	sql                  *table
	gorm                 *gorm.DB
	plans                []plan
}

// plan is one handler: where it makes which mistake, and how it ends.
type plan struct {
	id      string
	way     string // of running a transaction
	mistake mistake
	inside  string // of a savepoint: "", savepointKept or savepointUndone
	fails   bool   // the handler itself returns an error at its end
	err     error  // what the caller of the handler got
	paniced bool
}

const (
	savepointKept   = "in a savepoint that is kept"
	savepointUndone = "in a savepoint that is rolled back, then published properly"
)

func (p *plan) String() string {
	return fmt.Sprintf("%s: %s %s (fails %v)", p.way, p.mistake.name, p.inside, p.fails)
}

func (h *handlers) prepare(ctx context.Context) (err error) {
	if err := h.route(h.exchange, "direct", h.key, amqptest.QueueSpec{Name: h.queue}); err != nil {
		return err
	}
	if err := h.db.exec(ctx, "CREATE TABLE orders (id VARCHAR(36) PRIMARY KEY)"); err != nil {
		return err
	}
	if h.sql, err = openTable(h.Store, h.dsn); err != nil {
		return err
	}
	h.later(h.sql.db.Close)
	if h.gorm, err = openGorm(h.Store, h.dsn); err != nil {
		return err
	}
	pool, err := h.gorm.DB()
	if err != nil {
		return err
	}
	h.later(pool.Close)
	if err := h.gorm.Use(gormtx.Guard{}); err != nil {
		return err
	}
	if h.svc, err = h.service(ctx, serviceSpec{}); err != nil {
		return err
	}
	return h.svc.ready(ctx)
}

func openGorm(dialect, dsn string) (*gorm.DB, error) {
	var d gorm.Dialector
	switch dialect {
	case "postgres":
		d = gormpostgres.Open(dsn)
	case "mysql":
		d = gormmysql.Open(dsn)
	default:
		d = sqlite.Open("file:" + dsn + "?_pragma=busy_timeout(10000)")
	}
	return gorm.Open(d, &gorm.Config{Logger: logger.Discard})
}

// draw makes the handlers: each mistake in turn, the rest by chance.
func (h *handlers) draw() {
	all := mistakes()
	for i := range handlerRuns {
		p := plan{
			id:  model.StableID("handler", fmt.Sprint(h.Seed), h.Store, fmt.Sprint(i)),
			way: h.ways()[h.Rand.IntN(len(h.ways()))], mistake: all[i%len(all)], fails: h.Rand.IntN(3) == 0,
		}
		if p.mistake.gorm {
			p.way = []string{byGormtx, byHandGorm}[h.Rand.IntN(2)]
		}
		if p.mistake.inSavepoint {
			p.inside = []string{"", savepointKept, savepointUndone}[h.Rand.IntN(3)]
		}
		h.plans = append(h.plans, p)
	}
	h.Rand.Shuffle(len(h.plans), func(i, j int) { h.plans[i], h.plans[j] = h.plans[j], h.plans[i] })
}

func (h *handlers) run(ctx context.Context) (figures, error) {
	h.draw()
	for i := range h.plans {
		h.try(ctx, &h.plans[i])
	}
	if err := h.svc.close(ctx); err != nil {
		return nil, err
	}
	got, err := h.harvest(ctx, h.queue)
	if err != nil {
		return nil, err
	}
	arrived := times(got)
	stored, err := h.db.rows(ctx)
	if err != nil {
		return nil, err
	}
	orders, err := h.db.strings(ctx, "SELECT id FROM orders")
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	committed := 0
	for i := range h.plans {
		p := &h.plans[i]
		known[p.id] = true
		_, row := stored[p.id]
		order := slices.Contains(orders, p.id)
		if order {
			committed++
		}
		h.judge(p, order, row || arrived[p.id] > 0)
		h.Breaches.Check(arrived[p.id] <= 1, "%s: %d deliveries", p, arrived[p.id])
	}
	for id := range arrived {
		h.Breaches.Check(known[id], "an unknown message arrived: %s", id)
	}
	return figures{"handlers": len(h.plans), "committed": committed, "delivered": len(arrived)}, nil
}

// try runs one handler and keeps what its caller got.
func (h *handlers) try(ctx context.Context, p *plan) {
	defer func() { p.paniced = recover() != nil }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.err = h.transaction(ctx, p.way, func(ctx context.Context, tx handlerTx) error {
		tx.cancel = cancel
		return h.handle(ctx, tx, p)
	})
}

var errHandler = errors.New("the handler changed its mind")

// handle is the handler: an order, its message, one mistake whose error it drops.
func (h *handlers) handle(ctx context.Context, tx handlerTx, p *plan) error {
	m := h.world.message(h.exchange, h.key, 0, 2048)
	m.ID = p.id
	if !p.mistake.ordersItself {
		if err := tx.exec(ctx, "INSERT INTO orders VALUES (?)", p.id); err != nil {
			return err
		}
	}
	dropped := func() { _ = p.mistake.make(ctx, h, tx, m) }
	switch p.inside {
	case savepointKept:
		if err := tx.savepoint(ctx, func() error { dropped(); return nil }); err != nil {
			return err
		}
	case savepointUndone:
		err := tx.savepoint(ctx, func() error { dropped(); return errHandler })
		if !errors.Is(err, errHandler) {
			return err
		}
		if err := tx.out.Publish(ctx, m); err != nil {
			return err
		}
	default:
		dropped()
	}
	if p.fails {
		return errHandler
	}
	return nil
}

// judge compares what is there with what was promised.
func (h *handlers) judge(p *plan, order, message bool) {
	refused := p.mistake.cause != "" && p.inside != savepointUndone
	commits := !p.fails && !refused && !p.mistake.panics
	if commits && !p.mistake.asked {
		h.Breaches.Check(order && message, "%s: order %v, message %v; want both", p, order, message)
	} else if !commits {
		h.Breaches.Check(!order && !message, "%s: order %v, message %v; want neither", p, order, message)
	} else {
		h.Breaches.Check(order && !message, "%s: order %v, message %v; want the order alone", p, order, message)
	}
	h.Breaches.Check(p.paniced == p.mistake.panics, "%s: panic %v", p, p.paniced)
	switch {
	case p.mistake.panics:
	case p.fails:
		h.Breaches.Check(errors.Is(p.err, errHandler), "%s: got %v, want the handler's error", p, p.err)
	case refused:
		ok := errors.Is(p.err, model.ErrNotStored) && strings.Contains(fmt.Sprint(p.err), p.mistake.cause)
		h.Breaches.Check(ok, "%s: got %v, want ErrNotStored that says %q", p, p.err, p.mistake.cause)
	default:
		h.Breaches.Check(p.err == nil, "%s: got %v", p, p.err)
	}
}

// query turns ? into the store's placeholders, as a *sql.DB needs.
func (h *handlers) query(ctx context.Context, tx *sql.Tx, query string, args ...any) error {
	_, err := tx.ExecContext(ctx, h.sql.rebind(query), args...)
	return err
}
