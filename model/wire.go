package model

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// WireProperties are the properties of a message as AMQP 0-9-1 writes them into a content header frame: two octets of
// flags and the fields. They are the form in which dead letters are kept, since it holds what no typed form does: which
// of the fields are there and empty, the order of headers, names that come twice, and types that nobody knows.
type WireProperties []byte

// WireView is what can be read of [WireProperties].
type WireView struct {
	// ID is the message-id, any bytes; HasID tells an empty one from none.
	ID    string
	HasID bool
	// Properties and Headers have the types of [NormalizeHeaders]; strings may be any bytes, of a name that comes
	// twice the first value is here, and numbers may be NaN.
	Properties Properties
	Headers    map[string]any
	// DeliveryMode is 1 for a transient message, 2 for a persistent one, 0 where it is not told.
	DeliveryMode uint8
	// Problems say what is not in Headers and Properties as it was written, and so cannot be sent again; at most 8.
	Problems []string
}

// The property flags, and the order of the fields.
const (
	flagContentType = 1 << (15 - iota)
	flagContentEncoding
	flagHeaders
	flagDeliveryMode
	flagPriority
	flagCorrelationID
	flagReplyTo
	flagExpiration
	flagMessageID
	flagTimestamp
	flagType
	flagUserID
	flagAppID
	flagClusterID
	flagReserved
	flagMore
)

// maxWireDepth bounds how deep tables are read; what is deeper is a problem, and not read.
const maxWireDepth = 500

const maxProblems = 8

// View reads what can be read. It never fails: what it cannot read is among the problems.
func (w WireProperties) View() WireView {
	r := &wireReader{b: w}
	flags := r.number(2)
	if flags&(flagClusterID|flagReserved|flagMore) != 0 {
		r.problem("the flags %#04x name properties that AMQP 0-9-1 does not have", flags)
	}
	v := &r.view
	p := &v.Properties
	short := func(flag uint64, into *string) {
		if flags&flag != 0 {
			*into = r.text(1)
		}
	}
	short(flagContentType, &p.ContentType)
	short(flagContentEncoding, &p.ContentEncoding)
	if flags&flagHeaders != 0 {
		v.Headers = r.sub().table("headers", 1)
	}
	if flags&flagDeliveryMode != 0 {
		v.DeliveryMode = uint8(r.number(1))
	}
	if flags&flagPriority != 0 {
		p.Priority = uint8(r.number(1))
	}
	short(flagCorrelationID, &p.CorrelationID)
	short(flagReplyTo, &p.ReplyTo)
	short(flagExpiration, &p.Expiration)
	short(flagMessageID, &v.ID)
	v.HasID = flags&flagMessageID != 0
	if flags&flagTimestamp != 0 {
		p.Timestamp = seconds(r.number(8))
	}
	short(flagType, &p.Type)
	short(flagUserID, &p.UserID)
	short(flagAppID, &p.AppID)
	if flags&(flagClusterID|flagReserved|flagMore) == 0 && len(r.b) > 0 {
		r.problem("%d bytes follow the last property", len(r.b))
	}
	return *v
}

// wireReader reads from the front of b. What is cut off reads as zero and is a problem.
type wireReader struct {
	b    []byte
	view WireView
	// into is where problems go: the reader of a part shares its whole's.
	into *WireView
}

func (r *wireReader) whole() *WireView {
	if r.into != nil {
		return r.into
	}
	return &r.view
}

func (r *wireReader) problem(format string, args ...any) {
	if v := r.whole(); len(v.Problems) < maxProblems {
		v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
	}
}

// take returns n bytes, or what is there.
func (r *wireReader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.problem("%d bytes are cut off", n-uint64(len(r.b)))
		n = uint64(len(r.b))
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

// number reads an unsigned number of so many octets.
func (r *wireReader) number(octets int) uint64 {
	var wide [8]byte
	copy(wide[8-octets:], r.take(uint64(octets)))
	return binary.BigEndian.Uint64(wide[:])
}

// text reads a string whose length has so many octets.
func (r *wireReader) text(octets int) string { return string(r.take(r.number(octets))) }

// sub is a reader of the part whose length comes first, in four octets.
func (r *wireReader) sub() *wireReader {
	return &wireReader{b: r.take(r.number(4)), into: r.whole()}
}

func (r *wireReader) table(name string, depth int) map[string]any {
	out := map[string]any{}
	n := 0
	for ; len(r.b) > 0; n++ {
		k := r.text(1)
		v, ok := r.value(k, depth)
		if !ok {
			break
		}
		if _, twice := out[k]; twice {
			r.problem("header %.60q is there twice", k)
			continue
		}
		out[k] = v
	}
	r.bounds(name, n, depth)
	return out
}

func (r *wireReader) array(name string, depth int) []any {
	out := []any{}
	for len(r.b) > 0 {
		v, ok := r.value(name, depth)
		if !ok {
			break
		}
		out = append(out, v)
	}
	r.bounds(name, len(out), depth)
	return out
}

// bounds notes a table or array that our clients do not read.
func (r *wireReader) bounds(name string, n, depth int) {
	if reason := checkCount(n); reason != "" {
		r.problem("header %.60q %s", name, reason)
	}
	if depth == maxDepth+2 { // the headers themselves are the first
		r.problem("header %.60q is nested deeper than %d", name, maxDepth)
	}
}

// value reads a value with its type. false says that nothing after it can be read.
func (r *wireReader) value(name string, depth int) (v any, ok bool) {
	before := len(r.b)
	letter := byte(r.number(1))
	switch letter {
	case 'V':
		return nil, before > 0
	case 't':
		return r.number(1) != 0, true
	case 'b':
		return int8(r.number(1)), true
	case 'B':
		return uint8(r.number(1)), true
	case 's':
		return int16(r.number(2)), true
	case 'u':
		return uint16(r.number(2)), true
	case 'I':
		return int32(r.number(4)), true
	case 'i':
		return uint32(r.number(4)), true
	case 'l':
		return int64(r.number(8)), true
	case 'T':
		return seconds(r.number(8)), true
	case 'f', 'd':
		return r.float(name, letter), true
	case 'D':
		return Decimal{Scale: uint8(r.number(1)), Value: int32(r.number(4))}, true
	case 'S':
		return r.text(4), true
	case 'x':
		return []byte(r.text(4)), true
	}
	return r.composite(name, letter, depth)
}

func (r *wireReader) composite(name string, letter byte, depth int) (v any, ok bool) {
	switch {
	case letter != 'F' && letter != 'A':
		r.problem("header %.60q has the unknown type %q; it and what follows are not read", name, letter)
		return nil, false
	case depth == maxWireDepth:
		r.problem("header %.60q is nested deeper than %d and is not read", name, maxWireDepth)
		r.sub()
		return nil, true
	case letter == 'F':
		return r.sub().table(name, depth+1), true
	}
	return r.sub().array(name, depth+1), true
}

func (r *wireReader) float(name string, letter byte) any {
	if letter == 'f' {
		f := math.Float32frombits(uint32(r.number(4)))
		if !finite(float64(f)) {
			r.problem("header %.60q is %v, which no broker takes", name, f)
		}
		return f
	}
	f := math.Float64frombits(r.number(8))
	if !finite(f) {
		r.problem("header %.60q is %v, which no broker takes", name, f)
	}
	return f
}

func seconds(n uint64) time.Time { return time.Unix(int64(n), 0).UTC() }

// Readable is bytes from a broker as text that every store and terminal takes: what is not UTF-8, and control
// characters, become U+FFFD.
func Readable(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || (c >= 0x80 && c < 0xa0) {
			return utf8.RuneError
		}
		return c
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
}
