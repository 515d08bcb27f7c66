package transmsg_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/transmsg/transmsg"
	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/metrics"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/mysql"
)

var _ transmsg.Metrics = (*metrics.Metrics)(nil)

// Each form of a database, and each way to publish.
func TestPublishInTransactions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := openSQL(t, w.dsn)
	gdb, err := gorm.Open(gormmysql.New(gormmysql.Config{Conn: db}), &gorm.Config{Logger: logger.Discard})
	must(t, err)
	figures, err := metrics.New(metrics.Config{})
	must(t, err)
	var ids []string
	id := func() string { ids = append(ids, model.NewID()); return ids[len(ids)-1] }
	for _, src := range []gormstore.Source{mysql.DSN(w.dsn), mysql.SQL(db), mysql.Gorm(gdb)} {
		cfg := w.config()
		cfg.Store, cfg.Metrics = src, figures
		ob := w.ready(t, cfg)
		m := message(1)
		m.ID = id()
		must(t, ob.InTx(t.Context(), db, nil, func(ctx context.Context, tx *sql.Tx, out *transmsg.Tx) error {
			return errors.Join(insert(ctx, tx, m.ID[24:]), out.Publish(ctx, m))
		}))
		m.ID = id()
		must(t, ob.Transaction(t.Context(), gdb, func(ctx context.Context, tx *gorm.DB, out *transmsg.Tx) error {
			return errors.Join(tx.Exec("INSERT INTO orders VALUES (?, 1)", m.ID[24:]).Error, out.Publish(ctx, m))
		}))
		a, b := message(1), message(2)
		a.ID, b.ID = id(), id()
		receipts, err := ob.PublishBatch(t.Context(), []transmsg.Message{a, b})
		must(t, err)
		for _, r := range receipts {
			must(t, r.Err(t.Context()))
		}
		undone := errors.New("undone")
		err = ob.InTx(t.Context(), db, nil, func(ctx context.Context, _ *sql.Tx, out *transmsg.Tx) error {
			return errors.Join(undone, out.Publish(ctx, message(3)))
		})
		if !errors.Is(err, undone) {
			t.Errorf("got %v, want the function's error", err)
		}
		must(t, ob.Close(within(t, time.Minute)))
	}
	if rows := w.rows(t); rows != 0 {
		t.Errorf("%d rows are left, want none", rows)
	}
	w.delivered(t, ids)
	must(t, db.PingContext(t.Context())) // the caller's pool stays open
}

func insert(ctx context.Context, tx *sql.Tx, number string) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES (?, 1)", number)
	return err
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for want, change := range map[string]func(*transmsg.Config){
		"config: Service":   func(c *transmsg.Config) { c.Service = " orders" },
		"no database":       func(c *transmsg.Config) { c.Store = gormstore.Source{} },
		"names no database": func(c *transmsg.Config) { c.Store = mysql.DSN("mysql://u:hunter2@h/") },
		"AMQP is missing":   func(c *transmsg.Config) { c.AMQP = "" },
		"config: AMQP":      func(c *transmsg.Config) { c.AMQP = "amqp://u:hunter2%zz@h/" },
		"Prefix":            func(c *transmsg.Config) { c.StoreOptions.Prefix = "Bad-" },
		"migrate up":        func(c *transmsg.Config) { c.StoreOptions.Prefix = "none_" },
		"MaxAttempts":       func(c *transmsg.Config) { c.Policy.MaxAttempts = -7 },
		"BatchRows":         func(c *transmsg.Config) { c.Compensate = compensator.Config{BatchRows: -1} },
		"must be empty":     func(c *transmsg.Config) { c.Compensate = compensator.Config{Services: []string{"a"}} },
	} {
		cfg := w.config()
		change(&cfg)
		ob, err := transmsg.Open(t.Context(), cfg)
		if err == nil {
			_ = ob.Close(within(t, time.Second))
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") ||
			!strings.HasPrefix(err.Error(), "transmsg: open: ") {
			t.Errorf("%s: got %v, want it named, and no secret", want, err)
		}
	}
}
