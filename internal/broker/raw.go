package broker

import (
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"sync"
)

// RawProperties keeps the properties of delivered messages as they were on the wire. The client library reads them
// into a Go map: which of two headers with one name was there, what was empty and what was not there, it does not tell;
// and a header of a type that it does not know, or 33 deep, ends the connection, each time that message is delivered.
// So the library is given an empty list of properties in their place, with a number as the message-id, by which the
// bytes are found again.
type RawProperties struct {
	mu   sync.Mutex
	last uint64
	kept map[string][]byte
}

// Take returns the properties, the flags first, of a delivery with this message-id, once.
func (p *RawProperties) Take(id string) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.kept[id]
	delete(p.kept, id)
	return b
}

func (p *RawProperties) keep(b []byte) (id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	id = strconv.FormatUint(p.last, 36)
	p.kept[id] = b
	return id
}

// The shape of frames.
const (
	frameStart  = 7 // type, channel, size of the payload
	frameHeader = 2 // type of a content header
	frameEnd    = 0xce
	// contentStart is what a content header has before the flags: class, weight and size of the body.
	contentStart = 12
	flagsSize    = 2
	flagID       = 1 << 7
	// frameMost bounds what is held in memory of one frame: no broker sends a header above its frame_max.
	frameMost = 64 << 20
)

// rawConn is the connection that the library reads from. Frames pass as they are, but content headers.
type rawConn struct {
	net.Conn
	kept *RawProperties

	// The reader's.
	start [frameStart]byte
	got   int    // bytes of start
	left  uint64 // bytes of the frame that pass as they are
	ready []byte // to be read next
	blind bool   // what comes is no frame: all of it passes
}

func newRawConn(c net.Conn) *rawConn {
	return &rawConn{Conn: c, kept: &RawProperties{kept: map[string][]byte{}}}
}

// Read implements net.Conn. One goroutine reads: the library's.
func (c *rawConn) Read(b []byte) (int, error) {
	for len(c.ready) == 0 && c.left == 0 && !c.blind {
		if err := c.frame(); err != nil {
			return 0, err
		}
	}
	switch {
	case len(c.ready) > 0:
		n := copy(b, c.ready)
		c.ready = c.ready[n:]
		return n, nil
	case c.blind:
		return c.Conn.Read(b)
	}
	n, err := c.Conn.Read(b[:min(uint64(len(b)), c.left)])
	c.left -= uint64(n)
	return n, err
}

// frame reads the start of the next frame, and a content header whole.
func (c *rawConn) frame() error {
	for c.got < frameStart {
		n, err := c.Conn.Read(c.start[c.got:])
		if c.got += n; err != nil {
			if c.got > 0 { // the library is to see what came before the end
				c.ready, c.got, c.blind = append([]byte{}, c.start[:c.got]...), 0, true
				return nil
			}
			return err
		}
		if c.start[0] == 'A' { // the broker speaks another protocol and says which
			c.ready, c.got, c.blind = append([]byte{}, c.start[:c.got]...), 0, true
			return nil
		}
	}
	c.got = 0
	size := binary.BigEndian.Uint32(c.start[3:])
	if c.start[0] != frameHeader || size < contentStart+flagsSize || size > frameMost {
		c.ready, c.left = append([]byte{}, c.start[:]...), uint64(size)+1
		return nil
	}
	payload := make([]byte, size+1)
	if _, err := io.ReadFull(c.Conn, payload); err != nil {
		return err
	}
	if payload[size] != frameEnd {
		c.ready = append(append([]byte{}, c.start[:]...), payload...)
		return nil
	}
	c.ready = c.replaced(payload[:size])
	return nil
}

// replaced is the frame that the library gets in place of a content header.
func (c *rawConn) replaced(payload []byte) []byte {
	id := c.kept.keep(payload[contentStart:])
	size := contentStart + flagsSize + 1 + len(id)
	out := make([]byte, 0, frameStart+size+1)
	out = append(out, c.start[:3]...)
	out = binary.BigEndian.AppendUint32(out, uint32(size))
	out = append(out, payload[:contentStart]...)
	out = binary.BigEndian.AppendUint16(out, flagID)
	out = append(append(out, byte(len(id))), id...)
	return append(out, frameEnd)
}
