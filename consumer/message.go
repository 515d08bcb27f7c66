package consumer

import (
	"time"

	"github.com/transmsg/transmsg/model"
)

// Message is one delivery of a message as a handler sees it. It belongs to the handler's call; the maps and slices
// in it must not be changed.
type Message struct {
	// Queue is the work queue that it came from, also where it came by way of the queue's ladder.
	Queue string
	// ID is the AMQP message-id as it was received: any bytes, and "" where there was none.
	ID string
	// Exchange and RoutingKey are those of the first delivery, before the ladder.
	Exchange, RoutingKey string
	// Body is the body, byte for byte.
	Body []byte
	// Headers are all headers as received, in the types of model.NormalizeHeaders; strings may be any bytes.
	Headers map[string]any
	// Properties are the other AMQP properties. Expiration is the message's own, also where a copy carries it in a
	// header of ours.
	Properties model.Properties

	// Key is the business key (header transmsg-key), "" where there is none.
	Key string
	// Attempt counts the handler calls that were answered with a failure, and this one: 1 is the first. It is the
	// message's, whichever process handles it.
	Attempt int
	// MaxAttempts is the attempt whose failure makes the message a dead letter.
	MaxAttempts int
	// Replays counts how often the message came back from the dead letters.
	Replays int
	// First and Last are the first and last failure; nil before the first.
	First, Last *Failure
	// Redelivered says that the broker gave the message to somebody before, who may have ended, returned it or lost
	// its connection. Its effect may be there.
	Redelivered bool
	// DeliveryCount is the broker's count of earlier deliveries of this copy (x-delivery-count), -1 where the queue
	// has none.
	DeliveryCount int
}

// Failure is one failed attempt.
type Failure struct {
	// At is the consumer's clock, to the millisecond.
	At time.Time
	// Text is the error's text, cleaned and at most model.MaxErrorText bytes.
	Text string
}
