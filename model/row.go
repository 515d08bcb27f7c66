package model

import (
	"bytes"
	"time"
)

// Status is the state of a stored row. A confirmed row is deleted, so there are two.
type Status string

// The statuses, readable in a SQL shell.
const (
	Ready Status = "READY" // to be sent when due
	Dead  Status = "DEAD"  // out of attempts or never sendable; waits for an operator
)

// TransMessage is the stored row of one message. Times are Unix milliseconds of the
// database's clock.
type TransMessage struct {
	ID      string // the AMQP message-id
	Service string // the owner
	Status  Status
	// NextAttemptAt is, for READY, the due time and the end of a lease in one; for DEAD,
	// the next time to look at it.
	NextAttemptAt int64
	// Attempts counts sends that the broker answered with a failure about this message.
	// It drives DEAD.
	Attempts int
	// Failures counts unsuccessful sends of any kind. It drives backoff.
	Failures int
	// Claims counts claims since the last settle: a row that is claimed again and again
	// and never settled kills its senders.
	Claims int
	// Version grows by one at every claim and settle: the fence.
	Version int
	// Epoch is the row's incarnation. It starts at random ([NewEpoch]), so that no other
	// life of the same id shares it, and grows by one at every replay and edit, so that a
	// late ack never deletes a corrected row. Rows written by SQL start at 0: they must
	// never use an id again.
	Epoch      int
	MessageKey string // the business key
	Exchange   string
	RoutingKey string
	Properties []byte    // see EncodeProperties
	Payload    []byte    // the body, byte for byte
	Size       int       // bytes of Payload and Properties
	LastCode   CauseCode // cause of the last failure
	LastError  string    // its text, cleaned by CleanText
	ClaimedBy  string    // the instance that holds the lease
	CreatedAt  int64
	// UpdatedAt is the last change of state or content. For a DEAD row that is when it
	// died or was edited: alerts do not count.
	UpdatedAt int64
	// ReplayedAt is the last replay, or 0.
	ReplayedAt int64
	// NotBefore is the instant before which no send may begin, on the database's time line, or 0.
	NotBefore int64
	// FirstFailedAt is when a send was first answered with a failure about this message; it
	// counts from the last replay on. 0: never. See [TransMessage.FailingFor].
	FirstFailedAt int64
	// LoneClaims counts the claims since the last settle in which the row was the only one of
	// its claimer, LoneSince is when the first of them was: such a row ends its senders, while
	// those that were claimed beside one are innocent.
	LoneClaims int
	LoneSince  int64
	// Closes counts the runs in which the row, sent alone between two healthy sends, ended its
	// connection and was acquitted; ClosesSince is the first of them.
	Closes      int
	ClosesSince int64
}

// EligibleAt is when the row could first be sent: when it was stored, or its NotBefore where
// that is later.
func (t *TransMessage) EligibleAt() int64 { return max(t.CreatedAt, t.NotBefore) }

// FailingFor is how long ago a send was first answered with a failure about this message, by
// the database's clock at now; 0 where none was since the last replay. A clock that went
// back makes it 0 too, never negative.
func (t *TransMessage) FailingFor(now int64) time.Duration {
	if t.FirstFailedAt <= t.ReplayedAt { // of an earlier life: an old version replays without resetting it
		return 0
	}
	return MillisToDuration(max(now-t.FirstFailedAt, 0))
}

// NewTransMessage returns the READY row of a normalized message, without times but its
// NotBefore.
func NewTransMessage(service string, m *Message, timestampDefaulted bool) TransMessage {
	props := EncodeProperties(m, timestampDefaulted)
	return TransMessage{
		ID: m.ID, Service: service, Status: Ready,
		MessageKey: m.Key, Exchange: m.Exchange, RoutingKey: m.RoutingKey,
		Properties: props, Payload: m.Body, Size: len(m.Body) + len(props), NotBefore: instant(m.NotBefore),
	}
}

// Message returns the message of a row, or an error that is [ErrCorrupt] or
// [ErrNewerCodec]. The payload is shared with the row.
func (t *TransMessage) Message() (Message, error) {
	m := Message{
		ID: t.ID, Key: t.MessageKey, Exchange: t.Exchange, RoutingKey: t.RoutingKey, Body: t.Payload,
	}
	_, err := decodeProperties(t.Properties, &m)
	return m, err
}

// SameContent reports whether two rows with the same id are the same message: equal
// exchange, routing key, business key, body, properties and headers. Timestamps that
// were both set by default to the time of Publish, and [HeaderStoredAt], do not count, so
// that a repeated Publish is recognised.
func SameContent(a, b *TransMessage) bool {
	if a.Exchange != b.Exchange || a.RoutingKey != b.RoutingKey || a.MessageKey != b.MessageKey ||
		!bytes.Equal(a.Payload, b.Payload) {
		return false
	}
	if bytes.Equal(a.Properties, b.Properties) {
		return true
	}
	return bytes.Equal(canonicalProperties(a.Properties), canonicalProperties(b.Properties))
}

// canonicalProperties re-encodes properties, so that spacing and order of a row written by hand
// or by another version do not count, with a defaulted timestamp set to zero and
// without the time of storing. What
// cannot be decoded is compared as it is.
func canonicalProperties(props []byte) []byte {
	var m Message
	defaulted, err := decodeProperties(props, &m)
	if err != nil || bytes.HasPrefix(props, []byte(replayPrefix)) {
		return props
	}
	if defaulted {
		m.Properties.Timestamp = time.Time{}
	}
	delete(m.Headers, HeaderStoredAt)
	return EncodeProperties(&m, defaulted)
}
