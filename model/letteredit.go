package model

import (
	"maps"
	"reflect"
	"strings"
)

// LetterEdit changes the content of a dead letter. Nil fields stay as they are; properties and headers are each
// replaced as a whole, but for the library's own headers, which stay. The message id stays too.
type LetterEdit struct {
	Body       *[]byte
	Properties *Properties
	Headers    *map[string]any
	// Epoch is the epoch of the letter that the changes were made for: when it was edited since, the edit is refused
	// with [ErrChanged]. Nil edits whatever is there.
	Epoch *int
	// Actor is the operator, 1 to 64 bytes; Reason is free text. Both are kept in the history.
	Actor, Reason string
}

// Apply changes the letter, keeps what the broker delivered in Original, and decides anew whether it can be sent
// again. A letter that was sent back, or discarded, waits again then. The error is an [*InvalidError] for a change that
// cannot be sent; the letter is unchanged then. What is not edited stays byte for byte.
func (e *LetterEdit) Apply(l *DeadLetter) error {
	switch {
	case e.Body == nil && e.Properties == nil && e.Headers == nil:
		return &InvalidError{Field: "edit", Reason: "changes nothing", Index: -1}
	case l.ErasedAt > 0:
		return &InvalidError{Field: "edit", Reason: "is not for a dead letter whose content was erased", Index: -1}
	}
	edited := *l
	edited.Original = l.Original
	if edited.Original == nil {
		edited.Original = &LetterContent{l.Properties, l.Payload}
	}
	if e.Body != nil {
		edited.Payload = append([]byte(nil), *e.Body...)
	}
	if e.Properties != nil || e.Headers != nil {
		if err := e.properties(&edited); err != nil {
			return err
		}
	}
	if _, err := (Replay{}).Row(&edited); err != nil {
		return &InvalidError{Field: "edit", Reason: "cannot be sent: " + CleanText(err.Error()), Index: -1}
	}
	edited.Unreplayable = ""
	edited.Size = len(edited.Payload) + len(edited.Properties)
	edited.Status = edited.Waiting()
	*l = edited
	return nil
}

// properties replaces what is edited of them.
func (e *LetterEdit) properties(l *DeadLetter) error {
	v := l.Properties.View()
	m := Message{ID: v.ID, Properties: v.Properties, Headers: v.Headers}
	if e.Headers != nil {
		headers, err := editedHeaders(v.Headers, *e.Headers)
		if err != nil {
			return err
		}
		m.Headers = headers
	}
	properties := Edit{Properties: e.Properties}
	if err := properties.applyTo(&m); err != nil {
		return err
	}
	for _, s := range [...]string{m.Properties.UserID, m.Properties.Expiration} {
		if len(s) > maxShortStr {
			return invalid("properties", "hold a text of %d bytes, the limit is %d", len(s), maxShortStr)
		}
	}
	sent := m
	sent.Properties.UserID, sent.Properties.Expiration = "", "" // as a replay leaves them out
	if err := CheckReceived(&sent, Limits{}); err != nil {
		return err
	}
	l.Properties = EncodeWire(&m)
	return nil
}

// editedHeaders are those given, checked where they differ from what was there, with the library's own of before. What
// the broker delivered stays as it is, also where no publisher may write it.
func editedHeaders(before, given map[string]any) (map[string]any, error) {
	changed := map[string]any{}
	out := map[string]any{}
	for name, value := range given {
		if old, had := before[name]; had && reflect.DeepEqual(old, value) {
			out[name] = value
			continue
		}
		changed[name] = value
	}
	normal, err := NormalizeHeaders(changed)
	if err != nil {
		return nil, err
	}
	maps.Copy(out, normal)
	for name, value := range before {
		if strings.HasPrefix(name, ownPrefix) {
			out[name] = value
		}
	}
	return out, nil
}

// Changes names the fields that the edit sets.
func (e *LetterEdit) Changes() []string {
	both := Edit{Body: e.Body, Properties: e.Properties, Headers: e.Headers}
	return both.Changes()
}
