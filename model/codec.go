package model

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// codecVersion is the version that this build writes, but for replays. It grows with every change of format, also an
// added field: an older build must see at once that it would lose something.
const codecVersion = 1

// EncodeProperties returns the row's properties column for a normalized message: one
// JSON object, readable in a SQL shell, with every header value tagged by its AMQP type
// letter, keys sorted so that equal messages encode equally:
//
//	{"v":1,"content_type":"application/json","timestamp":1790000000,
//	 "headers":{"retries":["l",3],"raw":["x","AAE="],"tags":["A",[["S","a"],["S","b"]]]}}
//
// timestampDefaulted is stored too: it tells a repeated Publish from another message.
func EncodeProperties(m *Message, timestampDefaulted bool) []byte {
	p := &m.Properties
	b := make([]byte, 0, 128)
	b = append(b, `{"v":`...)
	b = strconv.AppendInt(b, codecVersion, 10)
	b = appendMember(b, "content_type", p.ContentType)
	b = appendMember(b, "content_encoding", p.ContentEncoding)
	b = appendMember(b, "correlation_id", p.CorrelationID)
	b = appendMember(b, "reply_to", p.ReplyTo)
	b = appendMember(b, "expiration", p.Expiration)
	b = appendMember(b, "type", p.Type)
	b = appendMember(b, "app_id", p.AppID)
	if p.Priority > 0 {
		b = append(b, `,"priority":`...)
		b = strconv.AppendUint(b, uint64(p.Priority), 10)
	}
	if !p.Timestamp.IsZero() {
		b = append(b, `,"timestamp":`...)
		b = strconv.AppendInt(b, p.Timestamp.Unix(), 10)
	}
	if timestampDefaulted {
		b = append(b, `,"timestamp_defaulted":true`...)
	}
	if m.AllowUnroutable {
		b = append(b, `,"allow_unroutable":true`...)
	}
	if len(m.Headers) > 0 {
		b = append(b, `,"headers":`...)
		b = appendTable(b, m.Headers)
	}
	return append(b, '}')
}

func appendMember(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(b, ',')
	b = appendString(b, name)
	b = append(b, ':')
	return appendString(b, value)
}

func appendTable(b []byte, t map[string]any) []byte {
	b = append(b, '{')
	for i, k := range slices.Sorted(maps.Keys(t)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, k)
		b = append(b, ':')
		b = appendValue(b, t[k])
	}
	return append(b, '}')
}

// appendValue writes ["letter",value]. Its argument comes from NormalizeHeaders, so
// every type is known.
func appendValue(b []byte, v any) []byte {
	letter, text := scalar(v)
	b = append(b, '[', '"', letter, '"', ',')
	switch x := v.(type) {
	case string:
		b = appendString(b, x)
	case []byte:
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, x)
		b = append(b, '"')
	case map[string]any:
		b = appendTable(b, x)
	case []any:
		b = append(b, '[')
		for i, e := range x {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendValue(b, e)
		}
		b = append(b, ']')
	default:
		b = append(b, text...)
	}
	return append(b, ']')
}

// scalar returns the AMQP type letter of v and, for what is not a string or a
// container, its JSON text.
func scalar(v any) (letter byte, text string) {
	switch x := v.(type) {
	case nil:
		return 'V', "null"
	case bool:
		return 't', strconv.FormatBool(x)
	case int8:
		return 'b', strconv.FormatInt(int64(x), 10)
	case uint8:
		return 'B', strconv.FormatUint(uint64(x), 10)
	case int16:
		return 's', strconv.FormatInt(int64(x), 10)
	case uint16:
		return 'u', strconv.FormatUint(uint64(x), 10)
	case int32:
		return 'I', strconv.FormatInt(int64(x), 10)
	case uint32:
		return 'i', strconv.FormatUint(uint64(x), 10)
	case int64:
		return 'l', strconv.FormatInt(x, 10)
	case float32:
		return 'f', floatText(float64(x), 32)
	case float64:
		return 'd', floatText(x, 64)
	case Decimal:
		return 'D', fmt.Sprintf("[%d,%d]", x.Scale, x.Value)
	case time.Time:
		return 'T', strconv.FormatInt(x.Unix(), 10)
	case string:
		return 'S', ""
	case []byte:
		return 'x', ""
	case map[string]any:
		return 'F', ""
	case []any:
		return 'A', ""
	default:
		// Unreachable by way of NormalizeHeaders; a wrong type must not become silence.
		panic(fmt.Sprintf("model: header value of type %T was not normalized", v))
	}
}

func floatText(f float64, bits int) string {
	if !finite(f) {
		panic(fmt.Sprintf("model: header value %v was not normalized", f))
	}
	return strconv.FormatFloat(f, 'g', -1, bits)
}

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			enc, err := json.Marshal(s)
			if err != nil { // json.Marshal of a string has no error path
				panic(err)
			}
			return append(b, enc...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
