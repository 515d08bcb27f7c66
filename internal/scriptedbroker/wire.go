package scriptedbroker

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Frame types and the octet that ends each frame.
const (
	frameMethod    = 1
	frameHeader    = 2
	frameBody      = 3
	frameHeartbeat = 8
	frameEnd       = 0xCE
	frameOverhead  = 8
	frameMax       = 131072
)

// method is class and method id in one.
type method uint32

var errFrame = errors.New("not an AMQP frame")

type frame struct {
	kind    byte
	channel uint16
	payload []byte
}

func readFrame(r *bufio.Reader) (frame, error) {
	var head [7]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	size := binary.BigEndian.Uint32(head[3:])
	if size > frameMax {
		return frame{}, fmt.Errorf("%w: %d bytes", errFrame, size)
	}
	body := make([]byte, size+1)
	if _, err := io.ReadFull(r, body); err != nil {
		return frame{}, err
	}
	if body[size] != frameEnd {
		return frame{}, errFrame
	}
	return frame{kind: head[0], channel: binary.BigEndian.Uint16(head[1:]), payload: body[:size]}, nil
}

func appendFrame(b []byte, kind byte, channel uint16, payload []byte) []byte {
	b = append(b, kind)
	b = binary.BigEndian.AppendUint16(b, channel)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	b = append(b, payload...)
	return append(b, frameEnd)
}

// args builds the payload of a method frame.
type args []byte

func newArgs(m method) args { return binary.BigEndian.AppendUint32(nil, uint32(m)) }

func (a args) octet(v byte) args   { return append(a, v) }
func (a args) short(v uint16) args { return binary.BigEndian.AppendUint16(a, v) }
func (a args) long(v uint32) args  { return binary.BigEndian.AppendUint32(a, v) }
func (a args) tag(v uint64) args   { return binary.BigEndian.AppendUint64(a, v) }
func (a args) longstr(s string) args {
	return append(a.long(uint32(len(s))), s...)
}

// shortstr cuts at the 255 bytes that the type can carry.
func (a args) shortstr(s string) args {
	s = s[:min(len(s), 255)]
	return append(a.octet(byte(len(s))), s...)
}

func (a args) flag(on bool) args {
	if on {
		return a.octet(1)
	}
	return a.octet(0)
}

// fields reads a payload; after the first field that is not there all are zero
// and bad is set.
type fields struct {
	rest []byte
	bad  bool
}

func (f *fields) take(n int) []byte {
	if f.bad || len(f.rest) < n {
		f.bad = true
		return make([]byte, min(n, 8))
	}
	b := f.rest[:n]
	f.rest = f.rest[n:]
	return b
}

func (f *fields) octet() byte   { return f.take(1)[0] }
func (f *fields) short() uint16 { return binary.BigEndian.Uint16(f.take(2)) }
func (f *fields) long() uint32  { return binary.BigEndian.Uint32(f.take(4)) }

func (f *fields) longlong() uint64 { return binary.BigEndian.Uint64(f.take(8)) }

func (f *fields) shortstr() string {
	b := f.take(int(f.octet()))
	if f.bad {
		return ""
	}
	return string(b)
}

// messageID reads the message-id out of a content header, "" when it has none.
func messageID(header []byte) string {
	f := &fields{rest: header}
	f.take(2 + 2 + 8) // class, weight, body size
	flags := f.short()
	const (
		shortstr = iota
		table
		octet
	)
	// The properties that come before message-id, from bit 15 of the flags down.
	for i, kind := range []int{shortstr, shortstr, table, octet, octet, shortstr, shortstr, shortstr} {
		if flags&(1<<(15-i)) == 0 {
			continue
		}
		switch kind {
		case shortstr:
			f.shortstr()
		case table:
			f.take(int(f.long()))
		case octet:
			f.octet()
		}
	}
	if flags&(1<<7) == 0 {
		return ""
	}
	return f.shortstr()
}
