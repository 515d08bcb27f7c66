package model

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"
)

// stored is the JSON form of the properties column.
type stored struct {
	V                  int                        `json:"v"`
	ContentType        string                     `json:"content_type"`
	ContentEncoding    string                     `json:"content_encoding"`
	CorrelationID      string                     `json:"correlation_id"`
	ReplyTo            string                     `json:"reply_to"`
	Expiration         string                     `json:"expiration"`
	Type               string                     `json:"type"`
	AppID              string                     `json:"app_id"`
	Priority           uint8                      `json:"priority"`
	Timestamp          *int64                     `json:"timestamp"`
	TimestampDefaulted bool                       `json:"timestamp_defaulted"`
	AllowUnroutable    bool                       `json:"allow_unroutable"`
	Headers            map[string]json.RawMessage `json:"headers"`
}

// DecodeProperties reads a properties column into m: Properties, Headers, Revision
// and AllowUnroutable; other fields are untouched. The error is [ErrNewerCodec] for a
// version this build does not know, and [ErrCorrupt] for anything else that
// [EncodeProperties] cannot have written. The row of a replay (see [TransMessage.IsReplay]) sets the ID too.
func DecodeProperties(b []byte, m *Message) error {
	_, err := decodeProperties(b, m)
	return err
}

func decodeProperties(b []byte, m *Message) (timestampDefaulted bool, err error) {
	if err := checkVersion(b); err != nil {
		return false, err
	}
	if bytes.HasPrefix(b, []byte(replayPrefix)) {
		return false, decodeReplay(b, m)
	}
	if err := checkText(b); err != nil {
		return false, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	var s stored
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return false, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return false, fmt.Errorf("%w: trailing data", ErrCorrupt)
	}
	if s.V != codecVersion { // a second "v" behind the one that checkVersion saw
		return false, fmt.Errorf("%w: two versions", ErrCorrupt)
	}
	var headers map[string]any
	if len(s.Headers) > 0 {
		if headers, err = decodeTable(s.Headers, 1); err != nil {
			return false, fmt.Errorf("%w: headers: %w", ErrCorrupt, err)
		}
	}
	m.Properties = Properties{
		ContentType: s.ContentType, ContentEncoding: s.ContentEncoding, Priority: s.Priority,
		CorrelationID: s.CorrelationID, ReplyTo: s.ReplyTo, Expiration: s.Expiration,
		Type: s.Type, AppID: s.AppID,
	}
	if s.Timestamp != nil {
		m.Properties.Timestamp = time.Unix(*s.Timestamp, 0).UTC()
	}
	m.Headers, m.AllowUnroutable = headers, s.AllowUnroutable
	m.Revision, _ = headers[HeaderRevision].(int64) // of another type: Check says so
	return s.TimestampDefaulted, nil
}

// checkVersion looks at the version alone: a newer format may differ in everything else.
func checkVersion(b []byte) error {
	if bytes.HasPrefix(b, []byte(`{"v":1,`)) || bytes.HasPrefix(b, []byte(`{"v":1}`)) {
		return nil // what this build writes; spares the second parse
	}
	var head struct {
		V *int `json:"v"`
	}
	switch err := json.Unmarshal(b, &head); {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	case head.V == nil || *head.V < 1:
		return fmt.Errorf("%w: no version", ErrCorrupt)
	case *head.V > replayVersion:
		return fmt.Errorf("%w: version %d, this build reads up to %d", ErrNewerCodec, *head.V, replayVersion)
	}
	return nil
}

// checkText refuses what encoding/json would silently replace or take for absent:
// bytes that are not UTF-8, and null members.
func checkText(b []byte) error {
	if !utf8.Valid(b) {
		return errors.New("not valid UTF-8")
	}
	if !bytes.Contains(b, []byte("null")) {
		return nil // the usual case; spares the second parse
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		return err
	}
	for name, val := range members {
		if string(val) == "null" {
			return fmt.Errorf("%.60q is null", name)
		}
	}
	return nil
}

func decodeTable(raw map[string]json.RawMessage, depth int) (map[string]any, error) {
	if reason := checkCount(len(raw)); reason != "" {
		return nil, errors.New(reason)
	}
	out := make(map[string]any, len(raw))
	for k, r := range raw {
		if reason := checkHeaderName(k); reason != "" {
			return nil, fmt.Errorf("%.60q: %s", k, reason)
		}
		v, err := decodeValue(r, depth)
		if err != nil {
			return nil, fmt.Errorf("%.60q: %w", k, err)
		}
		out[k] = v
	}
	return out, nil
}

// decodeValue reads ["letter",value].
func decodeValue(raw json.RawMessage, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	var pair []json.RawMessage
	if err := json.Unmarshal(raw, &pair); err != nil {
		return nil, err
	}
	var letter string
	if len(pair) != 2 || json.Unmarshal(pair[0], &letter) != nil {
		return nil, fmt.Errorf("want [type, value]")
	}
	val := pair[1]
	switch letter {
	case "V":
		if string(val) != "null" {
			return nil, fmt.Errorf("want null, got %.60s", val)
		}
		return nil, nil
	case "t":
		return into[bool](val)
	case "b":
		return into[int8](val)
	case "B":
		return into[uint8](val)
	case "s":
		return into[int16](val)
	case "u":
		return into[uint16](val)
	case "I":
		return into[int32](val)
	case "i":
		return into[uint32](val)
	case "l":
		return into[int64](val)
	case "S":
		return into[string](val)
	case "f":
		return into[float32](val)
	case "d":
		return into[float64](val)
	case "T":
		sec, err := into[int64](val)
		return time.Unix(sec, 0).UTC(), err
	default:
		return decodeComposite(letter, val, depth)
	}
}

func decodeComposite(letter string, val json.RawMessage, depth int) (any, error) {
	switch letter {
	case "D":
		return decodeDecimal(val)
	case "x":
		s, err := into[string](val)
		if err != nil {
			return nil, err
		}
		return base64.StdEncoding.DecodeString(s)
	case "F":
		raw, err := into[map[string]json.RawMessage](val)
		if err != nil {
			return nil, err
		}
		return decodeTable(raw, depth+1)
	case "A":
		raw, err := into[[]json.RawMessage](val)
		if err != nil {
			return nil, err
		}
		if reason := checkCount(len(raw)); reason != "" {
			return nil, errors.New(reason)
		}
		out := make([]any, len(raw))
		for i, r := range raw {
			if out[i], err = decodeValue(r, depth+1); err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
		}
		return out, nil
	default:
		return nil, fmt.Errorf("unknown type %.20q", letter)
	}
}

func decodeDecimal(val json.RawMessage) (any, error) {
	pair, err := into[[]json.RawMessage](val)
	if err != nil || len(pair) != 2 {
		return nil, fmt.Errorf("want a decimal [scale, value], got %.60s", val)
	}
	scale, err := into[uint8](pair[0])
	if err != nil {
		return nil, fmt.Errorf("decimal scale: %w", err)
	}
	value, err := into[int32](pair[1])
	if err != nil {
		return nil, fmt.Errorf("decimal value: %w", err)
	}
	return Decimal{Scale: scale, Value: value}, nil
}

// into unmarshals val as T, refusing null, which encoding/json would take for zero.
func into[T any](val json.RawMessage) (T, error) {
	var v T
	if string(bytes.TrimSpace(val)) == "null" {
		return v, fmt.Errorf("null where %T is wanted", v)
	}
	err := json.Unmarshal(val, &v)
	return v, err
}
