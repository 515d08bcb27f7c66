package model

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// DefaultMaxBody is the default of [Limits.MaxBody]: 4 MiB.
const DefaultMaxBody = 4 << 20

const (
	maxShortStr   = 255        // AMQP short string, in bytes
	maxExpiration = 4294967295 // RabbitMQ: the largest timer, in ms
	directReplyTo = "amq.rabbitmq.reply-to"
)

// Limits are the bounds that are not fixed by AMQP. The zero value means the defaults.
type Limits struct {
	// MaxBody is the largest body in bytes. Defaults to 4 MiB. It must stay below the
	// broker's max_message_size and the database's largest packet.
	MaxBody int
	// FrameMax is the frame size in force at the sender, in bytes. Defaults to 131072.
	FrameMax int
}

func (l Limits) withDefaults() Limits {
	if l.MaxBody == 0 {
		l.MaxBody = DefaultMaxBody
	}
	if l.FrameMax == 0 {
		l.FrameMax = DefaultFrameMax
	}
	return l
}

// Normalize returns m ready to be stored: the id made if empty, the timestamp set to
// now if zero, headers converted by [NormalizeHeaders], body and headers copied. It
// returns an [*InvalidError] for what a store or a broker would refuse. What passes is
// accepted by every supported store and closes no channel.
func Normalize(m Message, now time.Time, l Limits) (Message, error) {
	headers, err := NormalizeHeaders(m.Headers)
	if err != nil {
		return Message{}, err
	}
	m.Headers = headers
	if m.ID == "" {
		m.ID = NewID()
	}
	if m.Properties.Timestamp.IsZero() {
		m.Properties.Timestamp = now
	}
	if m.Revision < 0 {
		return Message{}, invalid("revision", "must not be negative, got %d", m.Revision)
	}
	if m.Revision > 0 {
		setOwn(&m, HeaderRevision, m.Revision)
	}
	m.Properties.Timestamp = time.Unix(m.Properties.Timestamp.Unix(), 0).UTC()
	if year := m.NotBefore.UTC().Year(); year > 9999 {
		return Message{}, invalid("not_before", "must not be after the year 9999, got the year %d", year)
	}
	if err := Check(&m, l); err != nil {
		return Message{}, err
	}
	m.Body = append([]byte(nil), m.Body...)
	return m, nil
}

// Check reports the first field of a normalized message that is out of bounds, as an
// [*InvalidError]. The compensator runs it on every claimed row, so that a row written
// by hand cannot close the connection under its neighbours.
func Check(m *Message, l Limits) error {
	l = l.withDefaults()
	if reason, ok := canonicalID(m.ID); !ok {
		return invalid("id", "%s, got %.80q", reason, m.ID)
	}
	if err := checkStrings(m); err != nil {
		return err
	}
	if err := checkProperties(&m.Properties); err != nil {
		return err
	}
	for k, v := range m.Headers {
		reason, own := ownHeader(k, v)
		if !own {
			reason = reservedHeader(k)
		}
		if reason == "" {
			reason = brokerHeader(k, v)
		}
		if reason != "" {
			return invalid(fmt.Sprintf("headers[%q]", k), "%s", reason)
		}
	}
	if n := headerFrameSize(m); n > l.FrameMax-frameHeadroom {
		return invalid("headers", "and properties take %d bytes encoded, the limit is %d (one frame of %d)",
			n, l.FrameMax-frameHeadroom, l.FrameMax)
	}
	if len(m.Body) > l.MaxBody {
		return invalid("body", "has %d bytes, the limit is %d", len(m.Body), l.MaxBody)
	}
	return nil
}

// CheckReceived reports the first field of a message that was received from a broker, and is sent on as it is, for
// which the broker would close the channel or connection. It asks for no id, no encoding and no names of headers:
// whoever published it chose those, and a broker has taken them before.
func CheckReceived(m *Message, l Limits) error {
	l = l.withDefaults()
	p := &m.Properties
	for _, f := range [...]struct{ name, value string }{
		{"id", m.ID},
		{"exchange", m.Exchange},
		{"routing_key", m.RoutingKey},
		{"content_type", p.ContentType},
		{"content_encoding", p.ContentEncoding},
		{"correlation_id", p.CorrelationID},
		{"reply_to", p.ReplyTo},
		{"type", p.Type},
		{"app_id", p.AppID},
	} {
		if len(f.value) > maxShortStr {
			return invalid(f.name, "has %d bytes, the limit is %d", len(f.value), maxShortStr)
		}
	}
	if p.UserID != "" || p.Expiration != "" {
		return invalid("user_id", "and expiration must be empty: the login is another, and the time is over")
	}
	if n := headerFrameSize(m); n > l.FrameMax-frameHeadroom {
		return invalid("headers", "and properties take %d bytes encoded, the limit is %d (one frame of %d)",
			n, l.FrameMax-frameHeadroom, l.FrameMax)
	}
	return nil
}

// checkStrings checks every short string for length, encoding and NUL.
func checkStrings(m *Message) error {
	p := &m.Properties
	for _, f := range [...]struct{ name, value string }{
		{"key", m.Key},
		{"exchange", m.Exchange},
		{"routing_key", m.RoutingKey},
		{"content_type", p.ContentType},
		{"content_encoding", p.ContentEncoding},
		{"correlation_id", p.CorrelationID},
		{"reply_to", p.ReplyTo},
		{"expiration", p.Expiration},
		{"type", p.Type},
		{"app_id", p.AppID},
	} {
		switch {
		case len(f.value) > maxShortStr:
			return invalid(f.name, "has %d bytes, the limit is %d", len(f.value), maxShortStr)
		case !utf8.ValidString(f.value):
			return invalid(f.name, "must be valid UTF-8, got %q", f.value)
		case hasNUL(f.value):
			return invalid(f.name, "must not contain NUL, got %q", f.value)
		}
	}
	if strings.ContainsAny(m.Exchange, "\r\n") {
		// The broker strips them in a declare and not in a publish: never the same exchange.
		return invalid("exchange", "must not contain CR or LF, got %q", m.Exchange)
	}
	if m.Exchange == "" && m.RoutingKey == "" {
		return invalid("exchange", "and routing key are both empty: the default exchange routes by the queue's name, "+
			"so that no queue can ever take the message")
	}
	if m.Exchange == "" && strings.HasPrefix(m.RoutingKey, directReplyTo) {
		// Observed: with a token the broker cannot decode it closes the connection (541).
		return invalid("routing_key", "must not be direct reply-to (%q): it names a channel, not a queue", m.RoutingKey)
	}
	return nil
}

func checkProperties(p *Properties) error {
	if p.UserID != "" {
		return invalid("user_id", "is not supported: the row may be sent later under another login, "+
			"and the broker closes the channel when they differ; put the user into a header")
	}
	if strings.HasPrefix(p.ReplyTo, directReplyTo) {
		return invalid("reply_to", "must not be direct reply-to (%q): it is bound to one channel", p.ReplyTo)
	}
	if p.Expiration != "" {
		n, err := strconv.ParseUint(p.Expiration, 10, 64)
		if err != nil || p.Expiration[0] == '+' || n > maxExpiration {
			return invalid("expiration", "must be decimal milliseconds from 0 to %d, got %.80q",
				uint64(maxExpiration), p.Expiration)
		}
	}
	if !p.Timestamp.IsZero() && p.Timestamp.Unix() < 0 {
		return invalid("timestamp", "must not be before 1970, got %s", p.Timestamp.UTC().Format(time.RFC3339))
	}
	return nil
}

// reservedHeader says why a top-level header name is refused, or "".
func reservedHeader(k string) string {
	switch {
	case k == "CC" || k == "BCC":
		return "is refused: it routes the message to further queues behind the sender's back; " +
			"use bindings or publish twice"
	case k == HeaderRevision:
		return "is refused: give the message a Revision, which is sent as this header"
	case strings.HasPrefix(strings.ToLower(k), ownPrefix):
		return "is refused: the prefix " + ownPrefix + " is reserved"
	case strings.HasPrefix(strings.ToLower(k), "x-transmsg-"):
		return "is refused: the prefix x-transmsg- is reserved"
	}
	return ""
}

func hasNUL(s string) bool { return strings.IndexByte(s, 0) >= 0 }

func invalid(field, format string, args ...any) *InvalidError {
	return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...), Index: -1}
}
