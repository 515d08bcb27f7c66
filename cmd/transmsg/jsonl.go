package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/transmsg/transmsg/model"
)

// parseLine reads one JSON object as a message. It is strict, because what it let through
// would be stored and sent: a field that it does not know, a field given twice, text that
// JSON decoders silently replace (invalid UTF-8, half a surrogate pair) and integers that
// do not fit are refused, each error naming the field.
func parseLine(line []byte) (model.Message, error) {
	if !utf8.Valid(line) {
		return model.Message{}, errors.New("the line is not valid UTF-8; send bytes as body_base64")
	}
	if half := halfSurrogate(line); half != "" {
		return model.Message{}, fmt.Errorf("%s is half a surrogate pair; send bytes as body_base64", half)
	}
	var p lineParser
	if err := eachMember(line, p.field); err != nil {
		return model.Message{}, err
	}
	if len(p.bodies) > 1 {
		return model.Message{}, fmt.Errorf("%s and %s: give one body only", p.bodies[0], p.bodies[1])
	}
	if p.jsonBody && p.m.Properties.ContentType == "" {
		p.m.Properties.ContentType = "application/json"
	}
	return p.m, nil
}

// lineParser collects the fields of one line.
type lineParser struct {
	m        model.Message
	bodies   []string // the body fields that were given
	jsonBody bool
}

// lineFields are the fields of a line and how each is read.
var lineFields = map[string]func(*lineParser, json.RawMessage) error{
	"id":               text(func(m *model.Message) *string { return &m.ID }),
	"key":              text(func(m *model.Message) *string { return &m.Key }),
	"exchange":         text(func(m *model.Message) *string { return &m.Exchange }),
	"routing_key":      text(func(m *model.Message) *string { return &m.RoutingKey }),
	"content_type":     text(func(m *model.Message) *string { return &m.Properties.ContentType }),
	"content_encoding": text(func(m *model.Message) *string { return &m.Properties.ContentEncoding }),
	"correlation_id":   text(func(m *model.Message) *string { return &m.Properties.CorrelationID }),
	"reply_to":         text(func(m *model.Message) *string { return &m.Properties.ReplyTo }),
	"expiration":       text(func(m *model.Message) *string { return &m.Properties.Expiration }),
	"type":             text(func(m *model.Message) *string { return &m.Properties.Type }),
	"app_id":           text(func(m *model.Message) *string { return &m.Properties.AppID }),
	"user_id":          text(func(m *model.Message) *string { return &m.Properties.UserID }),
	"timestamp":        moment(func(m *model.Message) *time.Time { return &m.Properties.Timestamp }),
	"not_before":       moment(func(m *model.Message) *time.Time { return &m.NotBefore }),
	"priority":         (*lineParser).priority,
	"revision":         (*lineParser).revision,
	"allow_unroutable": (*lineParser).allowUnroutable,
	"headers":          (*lineParser).headers,
	"body":             (*lineParser).body,
	"body_base64":      (*lineParser).bodyBase64,
	"json":             (*lineParser).bodyJSON,
}

func (p *lineParser) field(name string, raw json.RawMessage) error {
	read, ok := lineFields[name]
	if !ok {
		return fmt.Errorf("unknown field %.60q%s", name,
			didYouMean(name, slices.Collect(maps.Keys(lineFields)), ""))
	}
	if err := read(p, raw); err != nil {
		return fmt.Errorf("%s %w", name, err)
	}
	return nil
}

func text(dst func(*model.Message) *string) func(*lineParser, json.RawMessage) error {
	return func(p *lineParser, raw json.RawMessage) (err error) {
		*dst(&p.m), err = textValue(raw)
		return err
	}
}

func moment(dst func(*model.Message) *time.Time) func(*lineParser, json.RawMessage) error {
	return func(p *lineParser, raw json.RawMessage) error {
		s, err := textValue(raw)
		if err != nil {
			return err
		}
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			return fmt.Errorf("must be a time like 2026-01-31T09:30:00Z, got %.60q", s)
		}
		*dst(&p.m) = t
		return nil
	}
}

func textValue(raw json.RawMessage) (string, error) {
	var s string
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", fmt.Errorf("must be a string, got %.60s", raw)
	}
	return s, nil
}

func (p *lineParser) revision(raw json.RawMessage) (err error) {
	if p.m.Revision, err = strconv.ParseInt(string(raw), 10, 64); err != nil {
		return fmt.Errorf("must be a 64-bit integer, got %.60s", raw)
	}
	return nil
}

func (p *lineParser) priority(raw json.RawMessage) error {
	n, err := strconv.ParseUint(string(raw), 10, 8)
	if err != nil {
		return fmt.Errorf("must be an integer from 0 to 255, got %.60s", raw)
	}
	p.m.Properties.Priority = uint8(n)
	return nil
}

func (p *lineParser) allowUnroutable(raw json.RawMessage) error {
	switch string(raw) {
	case "true", "false":
		p.m.AllowUnroutable = string(raw) == "true"
		return nil
	}
	return fmt.Errorf("must be true or false, got %.60s", raw)
}

func (p *lineParser) body(raw json.RawMessage) error {
	s, err := textValue(raw)
	p.m.Body, p.bodies = []byte(s), append(p.bodies, "body")
	return err
}

func (p *lineParser) bodyBase64(raw json.RawMessage) error {
	s, err := textValue(raw)
	if err != nil {
		return err
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		return fmt.Errorf("must be base64 with padding: %w", err)
	}
	p.m.Body, p.bodies = b, append(p.bodies, "body_base64")
	return nil
}

// bodyJSON takes the value's own bytes, so that numbers and key order stay as they are.
func (p *lineParser) bodyJSON(raw json.RawMessage) error {
	p.m.Body, p.bodies, p.jsonBody = bytes.Clone(raw), append(p.bodies, "json"), true
	return nil
}

func (p *lineParser) headers(raw json.RawMessage) error {
	if raw[0] != '{' {
		return fmt.Errorf("must be an object, got %.60s", raw)
	}
	v, err := headerValue(raw, 0)
	if err == nil {
		p.m.Headers, _ = v.(map[string]any)
	}
	return err
}

// maxHeaderDepth is above what the validator takes, so that its error is the one seen.
const maxHeaderDepth = 40

// headerValue converts a JSON value to what a header can be: integers become int64, other
// numbers float64.
func headerValue(raw json.RawMessage, depth int) (any, error) {
	if depth > maxHeaderDepth {
		return nil, errors.New("are nested too deep")
	}
	switch raw[0] {
	case '"':
		return textValue(raw)
	case 'n':
		return nil, nil
	case 't', 'f':
		return raw[0] == 't', nil
	case '{':
		out := map[string]any{}
		return out, eachMember(raw, func(name string, raw json.RawMessage) (err error) {
			if out[name], err = headerValue(raw, depth+1); err != nil {
				err = fmt.Errorf("%.60q: %w", name, err)
			}
			return err
		})
	case '[':
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return nil, err
		}
		out := make([]any, len(items))
		for i, item := range items {
			var err error
			if out[i], err = headerValue(item, depth+1); err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
		}
		return out, nil
	default:
		return headerNumber(string(raw))
	}
}

func headerNumber(s string) (any, error) {
	if !bytes.ContainsAny([]byte(s), ".eE") {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("integer %.60s does not fit into 64 bits; send it as a string", s)
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, fmt.Errorf("number %.60s is out of range", s)
	}
	return f, nil
}

// eachMember calls f for each member of a JSON object, in order, with the member's own
// bytes. A name that comes twice is refused: a decoder would keep one of them silently.
func eachMember(raw []byte, f func(name string, raw json.RawMessage) error) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		if err == nil {
			return fmt.Errorf("must be a JSON object, got %.60s", raw)
		}
		return syntax(err)
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return syntax(err)
		}
		name, _ := token.(string)
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return syntax(err)
		}
		if seen[name] {
			return fmt.Errorf("field %.60q is given twice", name)
		}
		seen[name] = true
		if err := f(name, value); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return syntax(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more follows after the JSON object: one object a line")
	}
	return nil
}

func syntax(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("not JSON: the line ends too early")
	}
	return fmt.Errorf("not JSON: %w", err)
}

// halfSurrogate returns the first \uD8xx-\uDFxx escape that is not part of a pair, or "".
func halfSurrogate(line []byte) string {
	for i := 0; i+1 < len(line); i++ {
		if line[i] != '\\' {
			continue
		}
		unit, ok := escapedUnit(line[i:])
		switch {
		case !ok || unit < 0xD800 || unit > 0xDFFF:
			i++ // the escaped character; of \uXXXX the hex digits cannot be a backslash
		case unit < 0xDC00:
			if low, ok := escapedUnit(line[i+6:]); !ok || low < 0xDC00 || low > 0xDFFF {
				return string(line[i : i+6])
			}
			i += 11
		default:
			return string(line[i : i+6])
		}
	}
	return ""
}

// escapedUnit reads \uXXXX at the start of b.
func escapedUnit(b []byte) (uint64, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return unit, err == nil
}
