package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/internal/faultproxy"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
)

// The broker's user of publishers and compensators, whose rights a fault takes away.
const brokerUser = "svc"

// world is the private servers of one run.
type world struct {
	dir   string // records of the processes
	mode  string
	log   *slog.Logger
	node  *amqptest.Node    // the first of nodes
	link  *faultproxy.Proxy // between the processes and that node
	nodes []*amqptest.Node
	links []*faultproxy.Proxy // one for each node
	redis *dbtest.RedisServer
	// spare is the replica of redis, and redisAddress is what moves from one to the other.
	spare        *dbtest.RedisServer
	redisAddress *faultproxy.Proxy
	db           database
	undo         []func() error
}

// openWorld starts everything; the caller calls close.
func openWorld(ctx context.Context, o options, log *slog.Logger) (_ *world, err error) {
	w := &world{log: log, mode: o.mode}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.dir, err = os.MkdirTemp("", "transmsg-chaos-"); err != nil {
		return nil, err
	}
	if o.keep {
		log.Info("records are kept", "dir", w.dir)
	} else {
		w.later(func() error { return os.RemoveAll(w.dir) })
	}
	if w.db, err = openDatabase(ctx, o, filepath.Join(w.dir, "chaos.db")); err != nil {
		return nil, err
	}
	w.later(w.db.close)
	if w.redis, err = dbtest.NewRedis(ctx, ""); err != nil {
		return nil, err
	}
	w.later(w.redis.Close)
	if err := w.openSpareRedis(ctx); err != nil {
		return nil, err
	}
	if err := w.migrate(ctx); err != nil {
		return nil, err
	}
	return w, w.openBroker(ctx)
}

// later registers what close does, last first.
func (w *world) later(f func() error) { w.undo = append(w.undo, f) }

func (w *world) close() error {
	var errs []error
	for _, f := range slices.Backward(w.undo) {
		if err := f(); err != nil && !errors.Is(err, amqp.ErrClosed) {
			errs = append(errs, fmt.Errorf("clean up: %w", err))
		}
	}
	w.undo = nil
	return errors.Join(errs...)
}

func (w *world) openBroker(ctx context.Context) error {
	if err := w.openNodes(ctx); err != nil {
		return err
	}
	w.node = w.nodes[0]
	if err := w.node.AddUser(brokerUser, brokerUser, ".*", ".*", ".*"); err != nil {
		return err
	}
	if err := w.topology(w.declare); err != nil {
		return err
	}
	for _, n := range w.nodes {
		if err := n.FlushQueues(); err != nil {
			return err
		}
		link, err := faultproxy.New(n.Addr())
		if err != nil {
			return err
		}
		w.later(link.Close)
		w.links = append(w.links, link)
	}
	w.link = w.links[0]
	return nil
}

// openNodes starts one node, or a cluster of three.
func (w *world) openNodes(ctx context.Context) error {
	if w.mode == modeCluster {
		return w.openCluster(ctx)
	}
	n, err := amqptest.NewNode(ctx, "", amqptest.Options{})
	if err != nil {
		return err
	}
	w.later(n.Close)
	w.nodes = []*amqptest.Node{n}
	return nil
}

// amqp is the URL by way of the first link.
func (w *world) amqp() string {
	return fmt.Sprintf("amqp://%s:%s@%s/", brokerUser, brokerUser, w.link.Addr())
}

// moreBrokers are the addresses of the other links.
func (w *world) moreBrokers() []string {
	var more []string
	for _, l := range w.links[1:] {
		more = append(more, l.Addr())
	}
	return more
}

// topology does something on a connection of its own, to the first node that answers: none
// survives the faults.
func (w *world) topology(do func(*amqptest.Client) error) error {
	var errs []error
	for _, n := range w.nodes {
		c, err := amqptest.Dial(n.URL())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		defer c.Close() // the broker may just be ending it
		return do(c)
	}
	return errors.Join(errs...)
}

// migrate makes the product's tables and the service's own.
func (w *world) migrate(ctx context.Context) error {
	store, err := anystore.Open(ctx, w.db.dsn(), gormstore.Options{SkipSchemaCheck: true})
	if err != nil {
		return err
	}
	_, err = migrations.Up(ctx, store)
	if err = errors.Join(err, store.Close()); err != nil {
		return err
	}
	if _, err := w.db.pool().ExecContext(ctx,
		"CREATE TABLE chaos_counter (id INT PRIMARY KEY, n BIGINT NOT NULL)"); err != nil {
		return fmt.Errorf("business table: %w", err)
	}
	if _, err := w.db.pool().ExecContext(ctx, effectTable); err != nil {
		return fmt.Errorf("table of effects: %w", err)
	}
	for id := 1; id <= counters; id++ {
		query := fmt.Sprintf("INSERT INTO chaos_counter (id, n) VALUES (%d, 0)", id)
		if _, err := w.db.pool().ExecContext(ctx, query); err != nil {
			return fmt.Errorf("business table: %w", err)
		}
	}
	return nil
}

// until looks every 50 ms until holds says so, and names what it waited for when the
// limit or ctx ends first.
func until(ctx context.Context, limit time.Duration, what string, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %v until %s: %w", limit, what, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// memberDSN is how the nth process reaches the database.
func (w *world) memberDSN(n int) string {
	if g, ok := w.db.(*galera); ok {
		return g.member(n)
	}
	return w.db.dsn()
}
