package model

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
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

// DecodeProperties reads a properties column into m: Properties, Headers and
// AllowUnroutable; other fields are untouched. The error is [ErrNewerCodec] for a
// version this build does not know, and [ErrCorrupt] for anything else that
// [EncodeProperties] cannot have written.
func DecodeProperties(b []byte, m *Message) error {
	_, err := decodeProperties(b, m)
	return err
}

func decodeProperties(b []byte, m *Message) (timestampDefaulted bool, err error) {
	if err := checkVersion(b); err != nil {
		return false, err
	}
	var s stored
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return false, fmt.Errorf("%w: %s", ErrCorrupt, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return false, fmt.Errorf("%w: trailing data", ErrCorrupt)
	}
	var headers map[string]any
	if len(s.Headers) > 0 {
		if headers, err = decodeTable(s.Headers, 1); err != nil {
			return false, fmt.Errorf("%w: headers: %s", ErrCorrupt, err)
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
		return fmt.Errorf("%w: %s", ErrCorrupt, err)
	case head.V == nil || *head.V < 1:
		return fmt.Errorf("%w: no version", ErrCorrupt)
	case *head.V > codecVersion:
		return fmt.Errorf("%w: version %d, this build reads up to %d", ErrNewerCodec, *head.V, codecVersion)
	}
	return nil
}

func decodeTable(raw map[string]json.RawMessage, depth int) (map[string]any, error) {
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
		return decodeString(val)
	case "f":
		f, err := decodeFloat(val, 32)
		return float32(f), err
	case "d":
		return decodeFloat(val, 64)
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
		var d []int64
		err := json.Unmarshal(val, &d)
		if err != nil || len(d) != 2 || d[0] < 0 || d[0] > math.MaxUint8 || d[1] < math.MinInt32 || d[1] > math.MaxInt32 {
			return nil, fmt.Errorf("want a decimal [scale, value], got %.60s", val)
		}
		return Decimal{Scale: uint8(d[0]), Value: int32(d[1])}, nil
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

// into unmarshals val as T, refusing null, which encoding/json would take for zero.
func into[T any](val json.RawMessage) (T, error) {
	var v T
	if string(bytes.TrimSpace(val)) == "null" {
		return v, fmt.Errorf("null where %T is wanted", v)
	}
	err := json.Unmarshal(val, &v)
	return v, err
}

func decodeString(val json.RawMessage) (any, error) {
	s, err := into[string](val)
	if err == nil && !utf8.ValidString(s) {
		err = fmt.Errorf("string is not valid UTF-8")
	}
	return s, err
}

func decodeFloat(val json.RawMessage, bits int) (float64, error) {
	text := string(val)
	if len(text) > 1 && text[0] == '"' {
		text = text[1 : len(text)-1] // "NaN", "+Inf", "-Inf"
		if text != "NaN" && text != "+Inf" && text != "-Inf" {
			return 0, fmt.Errorf("want a number, got %.60s", val)
		}
	}
	f, err := strconv.ParseFloat(text, bits)
	if math.IsNaN(f) {
		f = math.NaN()
	}
	return f, err
}
