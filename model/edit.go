package model

import (
	"errors"
	"time"
)

// Edit changes a stored message. Nil fields stay as they are; properties and headers are
// each replaced as a whole, but for the library's own headers, which stay.
type Edit struct {
	Key, Exchange, RoutingKey *string
	Body                      *[]byte
	Properties                *Properties
	Headers                   *map[string]any
	AllowUnroutable           *bool
	// Epoch is the epoch of the row that the changes were made for: when it was edited or
	// replayed since, the edit is refused with [ErrChanged]. Nil edits whatever is there, and
	// of two such edits at the same time the later one wins.
	Epoch *int
	// Actor is the operator, 1 to 64 bytes; Reason is free text. Both are kept in the
	// history.
	Actor, Reason string
	// Limits the changed message must keep. The zero value means the defaults.
	Limits Limits
}

// Apply changes the row and checks it by [Check]. The error is an [*InvalidError] for a
// value that could not be sent, [ErrNewerCodec] for a row of a newer version, and
// [ErrCorrupt] for a row whose properties cannot be decoded: such a row is repaired by
// giving both Properties and Headers. On an error the row is unchanged. Properties that
// are not edited stay byte for byte. A zero timestamp in Properties keeps the row's.
func (e *Edit) Apply(t *TransMessage) error {
	changed := e.Changes()
	if len(changed) == 0 {
		return &InvalidError{Field: "edit", Reason: "changes nothing", Index: -1}
	}
	if t.IsReplay() {
		return &InvalidError{Field: "edit", Reason: "is not for the replay of a dead letter: discard it, " +
			"and edit the dead letter", Index: -1}
	}
	m := Message{ID: t.ID, Key: t.MessageKey, Exchange: t.Exchange, RoutingKey: t.RoutingKey, Body: t.Payload}
	defaulted, err := decodeProperties(t.Properties, &m)
	if err != nil && (!errors.Is(err, ErrCorrupt) || e.Properties == nil || e.Headers == nil) {
		return err
	}
	if e.Properties != nil && !e.Properties.Timestamp.IsZero() {
		defaulted = false
	}
	if err := e.applyTo(&m); err != nil {
		return err
	}
	if err := Check(&m, e.Limits); err != nil {
		return err
	}
	t.MessageKey, t.Exchange, t.RoutingKey, t.Payload = m.Key, m.Exchange, m.RoutingKey, m.Body
	if e.Properties != nil || e.Headers != nil || e.AllowUnroutable != nil {
		t.Properties = EncodeProperties(&m, defaulted)
	}
	t.Size = len(t.Payload) + len(t.Properties)
	return nil
}

func (e *Edit) applyTo(m *Message) (err error) {
	set(&m.Key, e.Key)
	set(&m.Exchange, e.Exchange)
	set(&m.RoutingKey, e.RoutingKey)
	set(&m.AllowUnroutable, e.AllowUnroutable)
	if e.Body != nil {
		m.Body = append([]byte(nil), *e.Body...)
	}
	if e.Properties != nil {
		stamp := e.Properties.Timestamp
		if stamp.IsZero() {
			stamp = m.Properties.Timestamp
		}
		m.Properties = *e.Properties
		m.Properties.Timestamp = time.Time{}
		if !stamp.IsZero() {
			m.Properties.Timestamp = time.Unix(stamp.Unix(), 0).UTC()
		}
	}
	if e.Headers != nil {
		m.Headers, err = replaceHeaders(m.Headers, *e.Headers)
	}
	return err
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// Changes names the fields that the edit sets.
func (e *Edit) Changes() []string {
	var out []string
	for _, f := range [...]struct {
		name string
		set  bool
	}{
		{"key", e.Key != nil},
		{"exchange", e.Exchange != nil},
		{"routing_key", e.RoutingKey != nil},
		{"body", e.Body != nil},
		{"properties", e.Properties != nil},
		{"headers", e.Headers != nil},
		{"allow_unroutable", e.AllowUnroutable != nil},
	} {
		if f.set {
			out = append(out, f.name)
		}
	}
	return out
}
