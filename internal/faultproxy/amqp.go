package faultproxy

import "encoding/binary"

// AMQP 0-9-1: a frame is type (1 octet), channel (2), size (4), payload and the
// end octet 0xCE; the payload of a method frame starts with class and method.
const (
	frameHead   = 7
	frameEnd    = 1
	frameMethod = 1
	classBasic  = 60
	methodAck   = 80
)

// ackFilter cuts a stream of frames and takes acks out. Its zero value is at
// the start of a stream.
type ackFilter struct{ rest []byte }

// pass returns the whole frames of what has come so far, without acks when
// swallow is true, and how many acks it took out.
func (f *ackFilter) pass(data []byte, swallow bool) (out []byte, swallowed int) {
	f.rest = append(f.rest, data...)
	for len(f.rest) >= frameHead {
		size := frameHead + int(binary.BigEndian.Uint32(f.rest[3:])) + frameEnd
		if len(f.rest) < size {
			break
		}
		frame := f.rest[:size]
		f.rest = f.rest[size:]
		if swallow && isAck(frame) {
			swallowed++
			continue
		}
		out = append(out, frame...)
	}
	return out, swallowed
}

func isAck(frame []byte) bool {
	payload := frame[frameHead:]
	return frame[0] == frameMethod && len(payload) > 4 &&
		binary.BigEndian.Uint16(payload) == classBasic && binary.BigEndian.Uint16(payload[2:]) == methodAck
}
