package consumer

import (
	"context"
	"errors"
)

// RedeliveryCounter counts how often a redelivered message was about to be handled, where the count survives the end
// of the process: on the database, outside the handler's transaction, which rolls back.
type RedeliveryCounter interface {
	// CountRedelivery adds one for the message in its queue and returns the count, this one included. It is called
	// before the handler, for messages that were delivered before, one at a time for each queue. The error is
	// ErrNotCounted for a message that it cannot count (no id): then the consumer counts by copies of the message.
	// Any other error is taken as Unavailable.
	CountRedelivery(ctx context.Context, m *Message) (int, error)
}

// ErrNotCounted says that a [RedeliveryCounter] cannot count a message.
var ErrNotCounted = errors.New("the message cannot be counted")
