package model

import (
	"encoding/json"
	"fmt"
	"time"
)

// Message is what a caller publishes. The zero value of each field but Exchange
// and RoutingKey is a sensible default. A Message is a plain value: Publish copies
// what it keeps, so the caller may change Body and Headers as soon as Publish has
// returned, but not while it runs.
type Message struct {
	// ID is the AMQP message-id and the primary key of the stored row: a canonical
	// lower-case UUID of 36 characters, never the nil UUID. Empty means a new
	// version 7 UUID. A caller who may repeat a Publish gives the same ID again (see
	// [StableID]): while the row is stored the repeat is recognised and is one message.
	ID string
	// Key is the business key (an order number), at most 255 bytes of UTF-8 without
	// NUL. It is indexed and shown to operators, and never sent to the broker.
	Key string
	// Exchange is the target exchange, at most 255 bytes of UTF-8 without NUL, CR or
	// LF. Empty is the broker's default exchange, which routes by queue name.
	Exchange string
	// RoutingKey is at most 255 bytes of UTF-8 without NUL.
	RoutingKey string
	// Body is sent byte for byte. Nil and empty are the same message. At most
	// [Limits.MaxBody] bytes.
	Body []byte
	// Headers are converted by the table in [NormalizeHeaders], or refused.
	Headers map[string]any
	// Properties are the other AMQP basic properties.
	Properties Properties
	// Revision is a number that grows with the state that the message tells of, such as the
	// version column of the caller's own row. It is sent as [HeaderRevision], so that a
	// consumer that has seen a greater one for the same thing drops the message: repeats and
	// retries arrive out of order. Zero means none; negative is refused. It is part of the
	// message's content.
	Revision int64
	// NotBefore holds the first send back until then by the database's clock, whatever this
	// process's clock says; at most the end of the year 9999. A message with a NotBefore is
	// never sent by its publisher: its receipt is deferred and a compensator sends it, at once
	// where that time has passed. Zero means none. It is not part of the message's content.
	NotBefore time.Time
	// AllowUnroutable says that no queue need take the message: it is sent without
	// mandatory, and an ack alone settles it. For events that may have no subscriber
	// and for x-delayed-message exchanges (which return every delayed message). The
	// choice is stored with the row. Defaults to false: an unroutable message is
	// returned, kept and tried again.
	AllowUnroutable bool
}

// Properties are the AMQP 0-9-1 basic properties a caller may set. Delivery mode is
// always 2 (persistent), message-id is [Message.ID] and user-id is refused: the row
// may be sent later by a compensator under another login, and the broker closes the
// channel when user-id and login differ. All strings are at most 255 bytes of UTF-8
// without NUL.
type Properties struct {
	// ContentType is a MIME type such as "application/json".
	ContentType string
	// ContentEncoding is a MIME encoding such as "gzip".
	ContentEncoding string
	// Priority is 0 to 255; queues cap it at their x-max-priority.
	Priority uint8
	// CorrelationID ties a reply to a request.
	CorrelationID string
	// ReplyTo names a reply queue. Direct reply-to (amq.rabbitmq.reply-to) is refused:
	// it is bound to one channel and the row may be sent on another.
	ReplyTo string
	// Expiration is the per-message TTL in the queue, in decimal milliseconds, 0 to
	// 4294967295 (the broker's bound). Empty means none. It starts when the queue takes
	// the message, not at Publish.
	Expiration string
	// Type is the application's message type name.
	Type string
	// AppID is the application's identifier.
	AppID string
	// UserID is always refused; the field exists so that the refusal can say why.
	UserID string
	// Timestamp has a resolution of one second and must not be before 1970. Zero means
	// the time of Publish, so that a late send still tells the event's time.
	Timestamp time.Time
}

// Decimal is the AMQP decimal header value: Value divided by 10 to the power Scale.
type Decimal struct {
	// Scale is the number of decimal digits, 0 to 255.
	Scale uint8
	// Value is the unscaled value.
	Value int32
}

// JSON returns a Message whose body is v as JSON and whose content type is
// application/json. It fails only where encoding/json does.
func JSON(exchange, routingKey string, v any) (Message, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return Message{}, fmt.Errorf("model: encode body: %w", err)
	}
	return Message{
		Exchange:   exchange,
		RoutingKey: routingKey,
		Body:       body,
		Properties: Properties{ContentType: "application/json"},
	}, nil
}
