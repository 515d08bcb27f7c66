package model

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// EncodeWire returns the properties and headers of m as AMQP writes them, persistent and with the names of headers
// sorted. Empty strings, a zero priority and a zero timestamp are left out. Strings may be any bytes, those of
// properties and names at most 255: it panics for longer ones and for a header value that [NormalizeHeaders] does not
// return, which a [WireView] never holds.
func EncodeWire(m *Message) WireProperties {
	p := &m.Properties
	w := &wireWriter{b: make([]byte, 2, 128)}
	w.property(flagContentType, p.ContentType)
	w.property(flagContentEncoding, p.ContentEncoding)
	if len(m.Headers) > 0 {
		w.flags |= flagHeaders
		w.table(m.Headers)
	}
	w.flags |= flagDeliveryMode
	w.b = append(w.b, persistent)
	if p.Priority > 0 {
		w.flags |= flagPriority
		w.b = append(w.b, p.Priority)
	}
	w.property(flagCorrelationID, p.CorrelationID)
	w.property(flagReplyTo, p.ReplyTo)
	w.property(flagExpiration, p.Expiration)
	w.property(flagMessageID, m.ID)
	if !p.Timestamp.IsZero() {
		w.flags |= flagTimestamp
		w.b = binary.BigEndian.AppendUint64(w.b, uint64(p.Timestamp.Unix()))
	}
	w.property(flagType, p.Type)
	w.property(flagUserID, p.UserID)
	w.property(flagAppID, p.AppID)
	binary.BigEndian.PutUint16(w.b, w.flags)
	return w.b
}

const persistent = 2

type wireWriter struct {
	b     []byte
	flags uint16
}

func (w *wireWriter) property(flag uint16, s string) {
	if s != "" {
		w.flags |= flag
		w.short(s)
	}
}

func (w *wireWriter) short(s string) {
	if len(s) > maxShortStr {
		panic(fmt.Sprintf("model: a short string of %d bytes", len(s)))
	}
	w.b = append(append(w.b, byte(len(s))), s...)
}

// sized writes what f writes behind its length.
func (w *wireWriter) sized(f func()) {
	at := len(w.b)
	w.b = append(w.b, 0, 0, 0, 0)
	f()
	binary.BigEndian.PutUint32(w.b[at:], uint32(len(w.b)-at-4))
}

func (w *wireWriter) table(t map[string]any) {
	w.sized(func() {
		for _, k := range slices.Sorted(maps.Keys(t)) {
			w.short(k)
			w.value(t[k])
		}
	})
}

func (w *wireWriter) value(v any) {
	switch x := v.(type) {
	case string:
		w.b = append(w.b, 'S')
		w.sized(func() { w.b = append(w.b, x...) })
	case []byte:
		w.b = append(w.b, 'x')
		w.sized(func() { w.b = append(w.b, x...) })
	case map[string]any:
		w.b = append(w.b, 'F')
		w.table(x)
	case []any:
		w.b = append(w.b, 'A')
		w.sized(func() {
			for _, e := range x {
				w.value(e)
			}
		})
	default:
		w.scalar(v)
	}
}

func (w *wireWriter) scalar(v any) {
	big := binary.BigEndian
	switch x := v.(type) {
	case nil:
		w.b = append(w.b, 'V')
	case bool:
		w.b = append(w.b, 't', 0)
		if x {
			w.b[len(w.b)-1] = 1
		}
	case int8:
		w.b = append(w.b, 'b', byte(x))
	case uint8:
		w.b = append(w.b, 'B', x)
	case int16:
		w.b = big.AppendUint16(append(w.b, 's'), uint16(x))
	case uint16:
		w.b = big.AppendUint16(append(w.b, 'u'), x)
	case int32:
		w.b = big.AppendUint32(append(w.b, 'I'), uint32(x))
	case uint32:
		w.b = big.AppendUint32(append(w.b, 'i'), x)
	case int64:
		w.b = big.AppendUint64(append(w.b, 'l'), uint64(x))
	case float32:
		w.b = big.AppendUint32(append(w.b, 'f'), math.Float32bits(x))
	case float64:
		w.b = big.AppendUint64(append(w.b, 'd'), math.Float64bits(x))
	case Decimal:
		w.b = big.AppendUint32(append(w.b, 'D', x.Scale), uint32(x.Value))
	case time.Time:
		w.b = big.AppendUint64(append(w.b, 'T'), uint64(x.Unix()))
	default:
		panic(fmt.Sprintf("model: header value of type %T was not normalized", v))
	}
}
