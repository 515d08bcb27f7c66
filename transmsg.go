package transmsg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"gorm.io/gorm"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/embed"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/publisher/gormtx"
	"github.com/transmsg/transmsg/store/gormstore"
)

// The words of the callers, so that publishing needs one import.
type (
	// Message is what a service publishes.
	Message = model.Message
	// Tx publishes in a transaction.
	Tx = publisher.Tx
	// Receipt tells the outcome of a message's first send.
	Receipt = publisher.Receipt
)

// JSON returns a message whose body is v as JSON; see [model.JSON].
func JSON(exchange, routingKey string, v any) (Message, error) {
	return model.JSON(exchange, routingKey, v)
}

// Outbox stores and sends the messages of one service. Make one per service and process with
// [Open] and share it: it is safe for concurrent use, and the more callers it has, the more
// they share statements and round trips.
type Outbox struct {
	store  *gormstore.Store
	sender *confirms.Sender
	pub    *publisher.Publisher

	compensating *compensating // nil without one

	closing sync.Once
	closed  chan struct{} // closed when the first Close has ended
	err     error         // of the first Close, set before closed
}

// Open opens the store, the connection to the broker and, where the config has one, a
// compensator. It never waits for the broker: with the broker down messages are stored. The
// database must answer, be new enough and have the schema. ctx ends Open alone. The error names
// the field of cfg, its value and its bound, and holds no secret; nothing is left open then.
func Open(ctx context.Context, cfg Config) (*Outbox, error) {
	cfg, broker, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("transmsg: open: %w", err)
	}
	o := &Outbox{closed: make(chan struct{})}
	if err := o.open(ctx, cfg, broker); err != nil {
		ended, cancel := context.WithCancel(context.WithoutCancel(ctx))
		cancel() // nothing is on its way
		return nil, fmt.Errorf("transmsg: open: %w", errors.Join(err, o.Close(ended)))
	}
	return o, nil
}

// open sets the parts that it could open, in the order in which they stand on each other.
func (o *Outbox) open(ctx context.Context, cfg Config, broker confirms.Config) (err error) {
	if o.store, err = gormstore.Open(ctx, cfg.Store, cfg.StoreOptions); err != nil {
		return err
	}
	broker.Name = "transmsg " + cfg.Service
	if o.sender, err = cfg.Metrics.OpenSender(broker); err != nil {
		return err
	}
	o.pub, err = cfg.Metrics.OpenPublisher(publisher.Config{
		Service: cfg.Service, Store: o.store, Sender: o.sender, Policy: cfg.Policy, Logger: cfg.Logger,
	})
	if err != nil || cfg.Compensate == nil {
		return err
	}
	broker.Name += " compensator"
	sender, err := cfg.Metrics.OpenSender(broker)
	if err != nil {
		return err
	}
	o.compensating = &compensating{sender: sender, done: make(chan struct{})}
	run, err := cfg.Compensate.Embed(embed.Parts{
		Service: cfg.Service, Store: o.store, Sender: sender, Policy: cfg.Policy, Logger: cfg.Logger,
		Metrics: cfg.Metrics,
	})
	if err != nil {
		return err
	}
	o.compensating.start(run)
	return nil
}

// Publish stores a message, sends it, and returns without waiting for the broker. A nil error
// means that it is stored: from then on it arrives at least once, or ends DEAD with an alert.
// The receipt tells the outcome of the first send. See [publisher.Publisher.Publish].
func (o *Outbox) Publish(ctx context.Context, m Message) (*Receipt, error) {
	return o.Publisher().Publish(ctx, m)
}

// PublishBatch is [Outbox.Publish] for several messages of which all are stored, or none. See
// [publisher.Publisher.PublishBatch].
func (o *Outbox) PublishBatch(ctx context.Context, messages []Message) ([]*Receipt, error) {
	return o.Publisher().PublishBatch(ctx, messages)
}

// InTx runs fn in a transaction of db, commits, and sends what fn published by out. db must
// reach the database of the store; opts may be nil. An error or panic of fn rolls back and
// comes back unchanged; nil means that the transaction is committed and every message is there.
// See [publisher.InTx].
func (o *Outbox) InTx(
	ctx context.Context, db *sql.DB, opts *sql.TxOptions,
	fn func(ctx context.Context, tx *sql.Tx, out *Tx) error,
) error {
	return publisher.InTx(ctx, o.Publisher(), db, opts, fn)
}

// Transaction is [Outbox.InTx] for gorm; nested tx.Transaction calls are savepoints. See
// [gormtx.Transaction].
func (o *Outbox) Transaction(
	ctx context.Context, db *gorm.DB, fn func(ctx context.Context, tx *gorm.DB, out *Tx) error,
) error {
	return gormtx.Transaction(ctx, o.Publisher(), db, fn)
}

// WaitReady waits until messages go straight to the broker, or until ctx ends; the error then
// says why not. A service need not call it: what is published before is stored, and a
// compensator sends it.
func (o *Outbox) WaitReady(ctx context.Context) error { return o.sender.WaitReady(ctx) }

// Publisher returns the part that publishes, for transactions of other libraries
// ([publisher.Run]) and its figures. It is the Outbox's to close.
func (o *Outbox) Publisher() *publisher.Publisher {
	if o == nil {
		return nil // whose methods say so
	}
	return o.pub
}

// Store returns the part that holds the rows, such as for metrics.Config.Store. It is the
// Outbox's to close.
func (o *Outbox) Store() *gormstore.Store { return o.store }
