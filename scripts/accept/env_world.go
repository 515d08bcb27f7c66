package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/dbtest"
)

// worldOptions say what a run needs beyond a fresh database and virtual host.
type worldOptions struct {
	privateBroker bool // a node of its own, which may be stopped and paused
	privateMaria  bool // on mysql: a server of its own, whose tables may be locked
}

// world is what one run stands on. A check watches it by raw SQL and a raw AMQP
// client: nothing that the product counts is proof of anything.
type world struct {
	*env
	dsn    string // as a user gives it to the product
	db     *table
	url    string // AMQP
	broker *amqptest.Client
	node   *amqptest.Node        // nil on the shared broker
	maria  *dbtest.MariaDBServer // nil on the shared server
	binary string                // transmsg, built from this tree
	undo   []func() error
}

// newWorld makes a world with our tables in it. The caller calls close, which
// leaves nothing behind but what --keep asks for.
func newWorld(ctx context.Context, e *env, o worldOptions) (*world, error) {
	w := &world{env: e}
	for _, step := range []func(context.Context, worldOptions) error{
		w.openDatabase, w.openBroker, w.build, w.migrate,
	} {
		if err := step(ctx, o); err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

// inWorld is a check's run in a world of its own.
func inWorld(
	o worldOptions, f func(context.Context, *world) (figures, error),
) func(context.Context, *env) (figures, error) {
	return func(ctx context.Context, e *env) (figures, error) {
		w, err := newWorld(ctx, e, o)
		if err != nil {
			return nil, err
		}
		defer w.close()
		return f(ctx, w)
	}
}

// onServer is inWorld for a check about what only database servers have.
func onServer(
	o worldOptions, f func(context.Context, *world) (figures, error),
) func(context.Context, *env) (figures, error) {
	return func(ctx context.Context, e *env) (figures, error) {
		if err := serversOnly(e); err != nil {
			return nil, err
		}
		return inWorld(o, f)(ctx, e)
	}
}

// route declares an exchange with one queue behind it.
func (w *world) route(exchange, kind, key string, q amqptest.QueueSpec) error {
	if err := w.broker.Exchange(exchange, kind, nil); err != nil {
		return err
	}
	if err := w.broker.Queue(q); err != nil {
		return err
	}
	return w.broker.Bind(q.Name, exchange, key)
}

// later registers what close does, last first.
func (w *world) later(f func() error) { w.undo = append(w.undo, f) }

// drop is later for what --keep keeps.
func (w *world) drop(what string, f func() error) {
	if w.Keep {
		w.Log.Info("kept", "what", what)
		return
	}
	w.later(f)
}

func (w *world) close() {
	for _, f := range slices.Backward(w.undo) {
		if err := f(); err != nil && !errors.Is(err, amqp.ErrClosed) {
			w.Breaches.Add("clean up: %v", err)
		}
	}
}

func (w *world) openDatabase(ctx context.Context, o worldOptions) error {
	dsn, err := w.newDatabase(ctx, o)
	if err != nil {
		return err
	}
	w.dsn = dsn
	if w.db, err = openTable(w.Store, dsn); err != nil {
		return err
	}
	w.later(w.db.db.Close)
	return nil
}

// newDatabase makes a fresh database of the run's kind and returns its DSN.
func (w *world) newDatabase(ctx context.Context, o worldOptions) (dsn string, err error) {
	var drop func() error
	switch {
	case w.Store == "mysql" && o.privateMaria:
		if w.maria == nil {
			if w.maria, err = dbtest.NewMariaDB(ctx, "", dbtest.MariaDBOptions{}); err != nil {
				return "", err
			}
			w.later(w.maria.Close)
		}
		schema, err := w.maria.NewSchema(ctx)
		return w.maria.DSN(schema), err
	case w.Store == "mysql":
		dsn, drop, err = dbtest.NewMySQL(ctx)
	case w.Store == "postgres":
		dsn, drop, err = dbtest.NewPostgres(ctx)
	default:
		return filepath.Join(w.Dir, fmt.Sprintf("store%d.db", len(w.undo))), nil
	}
	if err != nil {
		return "", err
	}
	w.drop("database "+dsn, drop)
	return dsn, nil
}

func (w *world) openBroker(ctx context.Context, o worldOptions) (err error) {
	if o.privateBroker {
		if w.node, err = amqptest.NewNode(ctx, "", amqptest.Options{}); err != nil {
			return err
		}
		w.later(w.node.Close)
		w.url = w.node.URL()
	} else {
		url, drop, err := amqptest.NewVHost(ctx)
		if err != nil {
			return err
		}
		w.url = url
		w.drop("virtual host "+url, drop)
	}
	w.broker, err = w.client()
	return err
}

// client connects once more: a client does not survive its broker.
func (w *world) client() (*amqptest.Client, error) {
	c, err := amqptest.Dial(w.url)
	if err != nil {
		return nil, err
	}
	w.later(c.Close)
	return c, nil
}

func (w *world) migrate(ctx context.Context, _ worldOptions) error {
	return w.transmsg(ctx, "migrate", "up", "--store", w.dsn)
}

// serversOnly refuses SQLite for a check about what only servers have.
func serversOnly(e *env) error {
	if e.Store == "sqlite" {
		return errors.New("this check is about database servers: --store mysql or --store postgres")
	}
	return nil
}

// until looks every 25 ms until holds says so, and says what was waited for when
// the limit or ctx ends first.
func until(ctx context.Context, limit time.Duration, what string, holds func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := holds(ctx)
		if ok || err != nil && !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %v until %s: %w", limit, what, ctx.Err())
		case <-tick.C:
		}
	}
}
