package scriptedbroker

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	writeTimeout     = 10 * time.Second
	handshakeTimeout = 10 * time.Second
)

// Conn is one client connection. Its methods are the script's side; they are
// safe for concurrent use, and sending on an ended connection is an error.
type Conn struct {
	peer    *Peer
	raw     net.Conn
	r       *bufio.Reader
	once    sync.Once
	cut     chan struct{} // Closed by Cut.
	done    chan struct{} // Closed when serve returns.
	writing sync.Mutex

	mu       sync.Mutex
	reading  chan struct{} // Closed while frames are read.
	channels map[uint16]*channel
}

// channel is one open channel; its content fields belong to the reader.
type channel struct {
	confirming bool
	closing    bool // We sent channel.close.
	tag        uint64
	incoming   *Publish // A publish whose content is not complete.
	size       uint64   // The body size that its header names.
}

func newConn(p *Peer, raw net.Conn) *Conn {
	c := &Conn{
		peer: p, raw: raw, r: bufio.NewReader(raw),
		cut: make(chan struct{}), done: make(chan struct{}),
		reading: make(chan struct{}), channels: map[uint16]*channel{},
	}
	close(c.reading)
	return c
}

// serve runs the connection until it ends.
func (c *Conn) serve() {
	defer close(c.done)
	defer c.Cut()
	if err := c.handshake(); err != nil {
		return
	}
	c.peer.opened.add(c)
	var wg sync.WaitGroup
	wg.Go(c.heartbeat)
	for {
		if err := c.step(); err != nil {
			break
		}
	}
	c.Cut()
	wg.Wait()
}

// step reads and answers one frame.
func (c *Conn) step() error {
	c.mu.Lock()
	reading := c.reading
	c.mu.Unlock()
	select {
	case <-reading:
	case <-c.cut:
		return net.ErrClosed
	}
	f, err := readFrame(c.r)
	if err != nil {
		return err
	}
	switch f.kind {
	case frameMethod:
		return c.method(f)
	case frameHeader, frameBody:
		c.content(f)
	}
	return nil
}

// heartbeat sends one every half interval, whatever the reader does.
func (c *Conn) heartbeat() {
	tick := time.NewTicker(c.peer.options.Heartbeat / 2)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if c.send(0, appendFrame(nil, frameHeartbeat, 0, nil)) != nil {
				return
			}
		case <-c.cut:
			return
		}
	}
}

func (c *Conn) handshake() error {
	if err := c.raw.SetReadDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	var hello [8]byte
	if _, err := io.ReadFull(c.r, hello[:]); err != nil {
		return err
	}
	if string(hello[:]) != "AMQP\x00\x00\x09\x01" {
		return fmt.Errorf("protocol header: %w", errFrame)
	}
	// No server properties: the table is empty.
	start := newArgs(connectionStart).octet(0).octet(9).long(0).longstr("PLAIN").longstr("en_US")
	seconds := uint16(c.peer.options.Heartbeat / time.Second)
	tune := newArgs(connectionTune).short(c.peer.options.ChannelMax).long(frameMax).short(seconds)
	for _, exchange := range []struct {
		say  args
		want method
	}{{start, connectionStartOk}, {tune, connectionTuneOk}, {nil, connectionOpen}} {
		if exchange.say != nil {
			if err := c.sendMethod(0, exchange.say); err != nil {
				return err
			}
		}
		if err := c.expect(exchange.want); err != nil {
			return err
		}
	}
	if err := c.sendMethod(0, newArgs(connectionOpenOk).shortstr("")); err != nil {
		return err
	}
	return c.raw.SetReadDeadline(time.Time{})
}

var errUnexpected = errors.New("unexpected method")

func (c *Conn) expect(want method) error {
	for {
		f, err := readFrame(c.r)
		if err != nil {
			return err
		}
		if f.kind == frameHeartbeat {
			continue
		}
		if f.kind != frameMethod || len(f.payload) < 4 || method(binary.BigEndian.Uint32(f.payload)) != want {
			return errUnexpected
		}
		return nil
	}
}
