package effect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

// The default and bounds of [Config.Wait].
const (
	DefaultWait = 2 * time.Second
	minWait     = time.Second
	maxWait     = 30 * time.Second
)

// Store keeps the records; store/gormstore has it. It must be on the database of the handlers' transactions.
type Store interface {
	// RecordTx writes the record through the transaction; false: it exists.
	RecordTx(ctx context.Context, x model.Execer, r model.InboxRecord, wait time.Duration) (first bool, err error)
	// RecordedTx reports whether the transaction still holds the record that it wrote.
	RecordedTx(ctx context.Context, x model.Transaction, r model.InboxRecord) (bool, error)
	// Recorded reports whether the effect exists.
	Recorded(ctx context.Context, r model.InboxRecord) (bool, error)
	// CountRedelivery counts in a transaction of its own; 0: the effect exists.
	CountRedelivery(ctx context.Context, r model.InboxRecord) (int, error)
	// TxFault says what an error tells about the transaction.
	TxFault(err error) model.TxFault
}

// NoID says what becomes of a message that has no id, and for which [Config.Key] gives none: nobody can tell whether it
// was there before.
type NoID uint8

const (
	// NoIDDeadLetter makes it a dead letter. It is the default.
	NoIDDeadLetter NoID = iota
	// NoIDUnguarded handles it without a record: delivered twice, it has two effects.
	NoIDUnguarded
)

// Config sets up a [Once]. Consumer and Store are required.
type Config struct {
	// Consumer is this consumer's name in the records: 1 to 64 ASCII letters, digits, dots, hyphens, underscores and
	// colons. Each queue's handler has a name of its own: two that get one message have an effect each. It outlives
	// processes and releases; who changes it lists the old one in Formerly.
	Consumer string
	// Formerly are the names that this consumer had before, the latest first, at most 8. A record under one of them
	// counts, also while processes with the old name still run. Each costs one more row for a message; leave it out
	// again when the inbox's retention has passed.
	Formerly []string
	// Store keeps the records, on the database of the handlers' transactions.
	Store Store
	// Publisher sends what handlers publish in their transactions, right after the commit. Nil: they publish nothing,
	// and their publisher.Tx is nil.
	Publisher *publisher.Publisher
	// Key is what tells one message from another, where that is not its id: 1 to 255 bytes, such as the number of the
	// payment order. An error makes the message a dead letter. Nil is the message's id.
	Key func(*consumer.Message) ([]byte, error)
	// NoID says what becomes of messages without an id or key. Defaults to NoIDDeadLetter.
	NoID NoID
	// Wait is how long the record waits for another process that is at the same message, 1 s to 30 s; MySQL and MariaDB
	// count whole seconds. Then the message is given back without an attempt. Defaults to 2 s.
	Wait time.Duration
}

func (c Config) withDefaults() Config {
	if c.Wait == 0 {
		c.Wait = DefaultWait
	}
	return c
}

func (c *Config) validate() error {
	if err := model.CheckConsumers(c.Consumer, c.Formerly); err != nil {
		return fmt.Errorf("config: Consumer: %w", err)
	}
	switch {
	case c.Store == nil:
		return errors.New("config: Store is required: open one with store/gormstore")
	case c.NoID > NoIDUnguarded:
		return fmt.Errorf("config: NoID %d is not known", c.NoID)
	case c.Wait < minWait || c.Wait > maxWait:
		return fmt.Errorf("config: Wait %v must be %v to %v", c.Wait, minWait, maxWait)
	}
	return nil
}
