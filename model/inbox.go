package model

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
)

const (
	// MaxConsumer is the length of a consumer's name in bytes.
	MaxConsumer = 64
	// MaxInboxKey is the length of an inbox record's key in bytes: an AMQP message id has at
	// most as many.
	MaxInboxKey = 255
	// maxFormerly bounds the former names of a consumer: each is one more row for a message.
	maxFormerly = 8
)

// InboxRecord says that a consumer has dealt with a message. The table trans_inbox holds one
// for each pair of consumer and key, written in the transaction of the effect: where it
// exists, the effect exists.
type InboxRecord struct {
	// Consumer is the consumer's name; see [CheckConsumer]. Two consumers that get one
	// message have an effect each.
	Consumer string
	// Formerly are names that the consumer had before, at most 8. A record under one of them
	// counts as one under Consumer, also while processes with the old name still run.
	Formerly []string
	// Key is the message id, or a key of the service's own: 1 to 255 bytes of any value.
	Key []byte
	// Mark tells this delivery's record from one that a rival wrote: a random number. Zero
	// where nobody asks.
	Mark int64
	// Round tells which of the message's tries this is, where redeliveries are counted: a
	// count begins anew when it differs. The attempt and the number of replays are in it.
	Round int
}

// Names are the names under which the record is written and looked for.
func (r *InboxRecord) Names() []string { return append([]string{r.Consumer}, r.Formerly...) }

// Check says which field of the record is out of bounds.
func (r *InboxRecord) Check() error {
	if len(r.Key) == 0 || len(r.Key) > MaxInboxKey {
		return fmt.Errorf("inbox: key has %d bytes, it must have 1 to %d", len(r.Key), MaxInboxKey)
	}
	return CheckConsumers(r.Consumer, r.Formerly)
}

// CheckConsumers checks a consumer's name and its former names.
func CheckConsumers(name string, formerly []string) error {
	if len(formerly) > maxFormerly {
		return fmt.Errorf("inbox: Formerly has %d names, it must have at most %d", len(formerly), maxFormerly)
	}
	names := append([]string{name}, formerly...)
	for i, n := range names {
		if err := CheckConsumer(n); err != nil {
			return fmt.Errorf("inbox: consumer %.80q %w", n, err)
		}
		if slices.Contains(names[:i], n) {
			return fmt.Errorf("inbox: Formerly repeats the name %q", n)
		}
	}
	return nil
}

// CheckConsumer says why a name cannot be a consumer's. It has 1 to 64 letters, digits, dots,
// hyphens, underscores and colons of ASCII, so that every database, a Redis key and a
// payment provider take it as it is.
func CheckConsumer(name string) error {
	if name == "" || len(name) > MaxConsumer {
		return fmt.Errorf("has %d bytes, it must have 1 to %d", len(name), MaxConsumer)
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '.', c == '-', c == '_', c == ':':
		default:
			return errors.New("must consist of ASCII letters, digits, dots, hyphens, underscores and colons")
		}
	}
	return nil
}

// Transaction is the part of an open transaction that the inbox uses: *sql.Tx and gorm's
// transactions have it. It cannot begin, commit or roll back.
type Transaction interface {
	Execer
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// TxFault says what an error of a database tells about the transaction it came from.
type TxFault uint8

const (
	// FaultOther is an error about the statement, or one that is not known.
	FaultOther TxFault = iota
	// FaultRivals says that other transactions were in the way: a deadlock, a lock that was not free in
	// time, a serialization failure. Roll back; the same again may pass.
	FaultRivals
	// FaultAway says that the server answered that it takes no work now, whatever the message: it
	// stops, refuses logins, is full or read only.
	FaultAway
	// FaultLost says that a connection broke or could not be made: this database's, or another
	// server's that was asked meanwhile.
	FaultLost
)
