package model

import (
	"fmt"
	"math"
	"reflect"
	"time"
	"unicode/utf8"
)

const (
	// maxDepth bounds the nesting of header tables and arrays: amqp091-go closes the
	// connection when it reads deeper ones, as it must when the message is returned.
	maxDepth = 32
	// maxElements bounds the entries of one header table or array. For the same reason:
	// amqp091-go reads 8192 and closes the connection at one more. The rest is room for
	// what the broker adds on the way to a consumer.
	maxElements = 8000
	// maxNormalized bounds the bytes of names and values, each value one more: far above
	// what a frame holds, and small enough that headers whose tables share their parts,
	// which a copy does not, end in an error and not in all the memory.
	maxNormalized = 1 << 20
)

// NormalizeHeaders returns a deep copy of h in which every value has one of the Go
// types that have an AMQP 0-9-1 field type of their own, or an [*InvalidError]. What it
// returns is encodable by every AMQP client and equal to what a consumer receives:
//
//	given                                    becomes             AMQP
//	nil                                      nil                 V
//	bool                                     bool                t
//	int8, int16, int32                       same                b, s, I
//	int, int64                               int64               l
//	uint8, uint16, uint32                    same                B, u, i
//	uint, uint64 up to math.MaxInt64         int64               l
//	float32, float64 (finite)                same                f, d
//	string (valid UTF-8)                     string              S
//	[]byte (nil is empty)                    []byte              x
//	time.Time                                UTC, whole seconds  T
//	Decimal                                  Decimal             D
//	map with string keys                     map[string]any      F
//	slice or array (nil is empty)            []any               A
//
// A named type of one of these kinds becomes the plain type. Refused are uint64 above
// math.MaxInt64, NaN and infinities (RabbitMQ closes the connection: Erlang has no such
// floats), time.Duration (say the unit: send a number), strings that are not
// UTF-8 (use []byte), structs, pointers, functions, channels and complex numbers; key
// names over 255 bytes, not UTF-8 or with NUL; nesting deeper than 32; a table or array
// of more than 8000 entries; more than 1 MiB in all; at the top level CC and BCC (they
// would route where nobody looks), the reserved prefixes transmsg- and x-transmsg-, and an x-death,
// x-first-death-* or x-last-death-* that a queue's process cannot read (it may crash).
func NormalizeHeaders(h map[string]any) (map[string]any, error) {
	if len(h) == 0 {
		return nil, nil
	}
	if reason := checkCount(len(h)); reason != "" {
		return nil, invalid("headers", "%s", reason)
	}
	n := &normalizer{left: maxNormalized}
	out := make(map[string]any, len(h))
	for k, v := range h {
		field := fmt.Sprintf("headers[%.60q]", k)
		if reason := checkHeaderName(k); reason != "" {
			return nil, invalid(field, "%s", reason)
		}
		if reason := reservedHeader(k); reason != "" {
			return nil, invalid(field, "%s", reason)
		}
		nv, reason := n.entry(k, v, 1)
		if reason != "" {
			return nil, invalid(field, "%s", reason)
		}
		out[k] = nv
	}
	return out, nil
}

// checkCount says why n entries are too many for one table or array, or "".
func checkCount(n int) string {
	if n > maxElements {
		return fmt.Sprintf("has %d entries, the limit is %d", n, maxElements)
	}
	return ""
}

func checkHeaderName(k string) string {
	switch {
	case len(k) > maxShortStr:
		return fmt.Sprintf("name has %d bytes, the limit is %d", len(k), maxShortStr)
	case !utf8.ValidString(k):
		return "name must be valid UTF-8"
	case hasNUL(k):
		return "name must not contain NUL"
	}
	return ""
}

// normalizer converts the headers of one message.
type normalizer struct{ left int } // of maxNormalized

// take counts a value of so many bytes, or says why it is too much.
func (n *normalizer) take(size int) string {
	if n.left -= 1 + size; n.left < 0 {
		return fmt.Sprintf("brings the headers above %d bytes", maxNormalized)
	}
	return ""
}

// entry converts a field of a table.
func (n *normalizer) entry(k string, v any, depth int) (any, string) {
	if reason := n.take(len(k)); reason != "" {
		return nil, reason
	}
	return n.value(v, depth)
}

// value converts one value, or says why it cannot.
func (n *normalizer) value(v any, depth int) (any, string) {
	if depth > maxDepth {
		return nil, fmt.Sprintf("is nested deeper than %d", maxDepth)
	}
	switch x := v.(type) { // the common types without reflection
	case nil, bool, int8, int16, int32, int64, uint8, uint16, uint32, Decimal:
		return x, ""
	case string:
		if !utf8.ValidString(x) {
			return nil, "string must be valid UTF-8 (send bytes as []byte)"
		}
		return x, n.take(len(x))
	case []byte:
		if reason := n.take(len(x)); reason != "" {
			return nil, reason
		}
		return append([]byte{}, x...), ""
	case time.Time:
		return time.Unix(x.Unix(), 0).UTC(), ""
	case time.Duration:
		return nil, "is a time.Duration: send a number in a unit of your choice"
	}
	return n.reflected(reflect.ValueOf(v), depth)
}

// reflected converts what the type switch of value does not name: int, unsigned words,
// floats, named types, typed maps and slices.
func (n *normalizer) reflected(rv reflect.Value, depth int) (any, string) {
	switch rv.Kind() {
	case reflect.Bool:
		return rv.Bool(), ""
	case reflect.Int8:
		return int8(rv.Int()), ""
	case reflect.Int16:
		return int16(rv.Int()), ""
	case reflect.Int32:
		return int32(rv.Int()), ""
	case reflect.Int, reflect.Int64:
		return rv.Int(), ""
	case reflect.Uint8:
		return uint8(rv.Uint()), ""
	case reflect.Uint16:
		return uint16(rv.Uint()), ""
	case reflect.Uint32:
		return uint32(rv.Uint()), ""
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		if rv.Uint() > math.MaxInt64 {
			return nil, fmt.Sprintf("is %d, above the largest AMQP integer %d", rv.Uint(), int64(math.MaxInt64))
		}
		return int64(rv.Uint()), ""
	case reflect.Float32, reflect.Float64:
		return normalizeFloat(rv)
	case reflect.String:
		return n.value(rv.String(), depth)
	case reflect.Map:
		return n.table(rv, depth)
	case reflect.Slice, reflect.Array:
		return n.list(rv, depth)
	default:
		return nil, fmt.Sprintf("has type %s, which has no AMQP field type", rv.Type())
	}
}

func normalizeFloat(rv reflect.Value) (any, string) {
	f := rv.Float()
	if !finite(f) {
		return nil, fmt.Sprintf("is %v: the broker has no such number and closes the connection", f)
	}
	if rv.Kind() == reflect.Float32 {
		return float32(f), ""
	}
	return f, ""
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

func (n *normalizer) table(rv reflect.Value, depth int) (any, string) {
	if rv.Type().Key().Kind() != reflect.String {
		return nil, fmt.Sprintf("has type %s: a table needs string keys", rv.Type())
	}
	if reason := checkCount(rv.Len()); reason != "" {
		return nil, reason
	}
	out := make(map[string]any, rv.Len())
	for it := rv.MapRange(); it.Next(); {
		k := it.Key().String()
		if reason := checkHeaderName(k); reason != "" {
			return nil, fmt.Sprintf("table field %.60q: %s", k, reason)
		}
		v, reason := n.entry(k, it.Value().Interface(), depth+1)
		if reason != "" {
			return nil, fmt.Sprintf("table field %.60q: %s", k, reason)
		}
		out[k] = v
	}
	return out, ""
}

func (n *normalizer) list(rv reflect.Value, depth int) (any, string) {
	if rv.Type().Elem().Kind() == reflect.Uint8 { // a named byte slice or a byte array
		if reason := n.take(rv.Len()); reason != "" {
			return nil, reason
		}
		out := make([]byte, rv.Len())
		for i := range out {
			out[i] = byte(rv.Index(i).Uint())
		}
		return out, ""
	}
	if reason := checkCount(rv.Len()); reason != "" {
		return nil, reason
	}
	out := make([]any, rv.Len())
	for i := range out {
		v, reason := n.entry("", rv.Index(i).Interface(), depth+1)
		if reason != "" {
			return nil, fmt.Sprintf("element %d: %s", i, reason)
		}
		out[i] = v
	}
	return out, ""
}
