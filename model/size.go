package model

import "strings"

// DefaultFrameMax is the frame size that RabbitMQ negotiates by default, in bytes.
const DefaultFrameMax = 131072

// frameHeadroom is kept free in the content header frame. Nothing is ever added to a
// message between validation and send, so it only covers the frame's own octets and a
// broker that counts them differently.
const frameHeadroom = 128

// FitsFrame reports whether the header frame of a message with normalized headers fits into frameMax, with room
// to spare.
func FitsFrame(m *Message, frameMax int) bool { return headerFrameSize(m) <= frameMax-frameHeadroom }

// LargestHeader returns the name of the header that takes most bytes, without those of ours; "" where there is none.
func LargestHeader(h map[string]any) string {
	largest, most := "", -1
	for k, v := range h {
		if n := len(k) + valueSize(v); n > most && !strings.HasPrefix(k, ownPrefix) {
			largest, most = k, n
		}
	}
	return largest
}

// headerFrameSize returns the size in bytes of the AMQP content header frame that m is
// sent with: RabbitMQ neither splits it nor forgives one above frame_max, and closes
// the whole connection instead. m must be normalized.
func headerFrameSize(m *Message) int {
	// frame: type 1, channel 2, size 4, end 1; payload: class 2, weight 2, body size 8,
	// flags 2; delivery mode 1.
	n := 8 + 14 + 1
	p := &m.Properties
	for _, s := range [...]string{
		p.ContentType, p.ContentEncoding, p.CorrelationID, p.ReplyTo, p.Expiration, p.Type, p.AppID, m.ID,
	} {
		if s != "" {
			n += 1 + len(s)
		}
	}
	if p.Priority > 0 {
		n++
	}
	if !p.Timestamp.IsZero() {
		n += 8
	}
	if len(m.Headers) > 0 {
		n += tableSize(m.Headers)
	}
	return n
}

func tableSize(t map[string]any) int {
	n := 4
	for k, v := range t {
		n += 1 + len(k) + valueSize(v)
	}
	return n
}

// valueSize is the encoded size of one field value, type octet included.
func valueSize(v any) int {
	switch x := v.(type) {
	case nil:
		return 1
	case bool, int8, uint8:
		return 2
	case int16, uint16:
		return 3
	case int32, uint32, float32:
		return 5
	case Decimal:
		return 6
	case string:
		return 5 + len(x)
	case []byte:
		return 5 + len(x)
	case map[string]any:
		return 1 + tableSize(x)
	case []any:
		n := 5
		for _, e := range x {
			n += valueSize(e)
		}
		return n
	default: // int64, float64, time.Time
		return 9
	}
}
