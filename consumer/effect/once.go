package effect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

// Once makes handlers that have one effect for each message. It is safe for concurrent use.
type Once struct {
	cfg Config
}

// New checks cfg. It does no I/O.
func New(cfg Config) (*Once, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("effect: %w", err)
	}
	return &Once{cfg}, nil
}

// Publisher is that of the [Config], or nil.
func (o *Once) Publisher() *publisher.Publisher { return o.cfg.Publisher }

// TxHandler has its effect in tx, and publishes through out, which is nil without a publisher. Nil commits both. Any
// error rolls back; see the package's page for what it means. ctx ends with the handler's deadline, and the
// transaction with it.
type TxHandler func(ctx context.Context, tx *sql.Tx, out *publisher.Tx, m *consumer.Message) error

// InTx makes a handler that runs fn in a transaction of db. opts may be nil.
func (o *Once) InTx(db *sql.DB, opts *sql.TxOptions, fn TxHandler) consumer.Handler {
	return func(ctx context.Context, m *consumer.Message) error {
		return o.Handle(ctx, m, func(ctx context.Context, body Body) error {
			return o.sqlTx(ctx, db, opts, func(ctx context.Context, tx *sql.Tx, out *publisher.Tx) error {
				return body(ctx, tx, func() error { return fn(ctx, tx, out, m) })
			})
		})
	}
}

// sqlTx runs fn in a transaction, with what it publishes where there is a publisher.
func (o *Once) sqlTx(
	ctx context.Context, db *sql.DB, opts *sql.TxOptions,
	fn func(ctx context.Context, tx *sql.Tx, out *publisher.Tx) error,
) error {
	if o.cfg.Publisher != nil {
		return publisher.InTx(ctx, o.cfg.Publisher, db, opts, fn)
	}
	tx, err := db.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // no matter after the commit; before it the error or panic says more
	if err := fn(ctx, tx, nil); err != nil {
		return err
	}
	return tx.Commit()
}

// CountRedelivery implements [consumer.RedeliveryCounter]. A message whose effect exists counts 0: it is handled, and
// skipped.
func (o *Once) CountRedelivery(ctx context.Context, m *consumer.Message) (int, error) {
	r, err := o.record(m)
	if err != nil {
		return 0, consumer.ErrNotCounted
	}
	n, err := o.cfg.Store.CountRedelivery(ctx, r)
	if err != nil {
		return 0, fmt.Errorf("effect: count a redelivery: %w", err)
	}
	return n, nil
}

// Counters are the [consumer.RedeliveryCounter] of a consumer with several queues, by the queue's name.
type Counters map[string]*Once

// CountRedelivery implements [consumer.RedeliveryCounter]. A queue that is not listed is not counted.
func (c Counters) CountRedelivery(ctx context.Context, m *consumer.Message) (int, error) {
	if o := c[m.Queue]; o != nil {
		return o.CountRedelivery(ctx, m)
	}
	return 0, consumer.ErrNotCounted
}

// errNoID is the end of a message that cannot be told from others.
var errNoID = errors.New("the message has no id, and nobody can tell whether it was handled before; " +
	"give it one, or set effect.Config.Key or NoID")

// record is the record of a message. errNoID says that it has none.
func (o *Once) record(m *consumer.Message) (model.InboxRecord, error) {
	r := model.InboxRecord{
		Consumer: o.cfg.Consumer, Formerly: o.cfg.Formerly, Key: []byte(m.ID),
		Mark: rand.Int64(), Round: roundOf(m),
	}
	if o.cfg.Key != nil {
		key, err := o.cfg.Key(m)
		if err != nil {
			return r, fmt.Errorf("effect: key: %w", err)
		}
		r.Key = key
	}
	if len(r.Key) == 0 {
		return r, errNoID
	}
	return r, r.Check()
}

// roundOf tells a message's tries apart: a count of crashes is for one of them.
func roundOf(m *consumer.Message) int {
	const attempts = 1000
	return min(m.Replays, 1_000_000)*attempts + min(m.Attempt, attempts-1)
}
