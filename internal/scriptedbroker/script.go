package scriptedbroker

import (
	"fmt"
	"time"
)

// Publish is one message that a client has published.
type Publish struct {
	Conn    *Conn
	Channel uint16
	// Tag is its delivery tag, from 1 on each confirming channel; 0 without
	// confirm.select.
	Tag                  uint64
	Exchange, RoutingKey string
	Mandatory            bool
	MessageID            string
	// Header is the content header as it came: class, weight, size, properties.
	Header []byte
	Body   []byte
}

// Ack confirms the message, and all before it on its channel when multiple.
func (m *Publish) Ack(multiple bool) error { return m.Conn.Ack(m.Channel, m.Tag, multiple) }

// Nack refuses the message, and all before it on its channel when multiple.
func (m *Publish) Nack(multiple bool) error { return m.Conn.Nack(m.Channel, m.Tag, multiple) }

// Return sends the message back unchanged with a reply code, such as 312. A
// broker acks it afterwards; the peer does not.
func (m *Publish) Return(code uint16, text string) error {
	return m.Conn.send(m.Channel, content(m, newArgs(basicReturn).short(code).shortstr(text).
		shortstr(m.Exchange).shortstr(m.RoutingKey)))
}

// content is a method that carries the message, in one piece.
func content(m *Publish, method args) []byte {
	b := appendFrame(nil, frameMethod, m.Channel, method)
	b = appendFrame(b, frameHeader, m.Channel, m.Header)
	for rest := m.Body; len(rest) > 0; {
		n := min(len(rest), frameMax-frameOverhead)
		b = appendFrame(b, frameBody, m.Channel, rest[:n])
		rest = rest[n:]
	}
	return b
}

// Ack sends basic.ack for any tag of a channel.
func (c *Conn) Ack(channel uint16, tag uint64, multiple bool) error {
	return c.sendMethod(channel, newArgs(basicAck).tag(tag).flag(multiple))
}

// Nack sends basic.nack for any tag of a channel.
func (c *Conn) Nack(channel uint16, tag uint64, multiple bool) error {
	return c.sendMethod(channel, newArgs(basicNack).tag(tag).flag(multiple))
}

// CloseChannel sends a channel exception. From then on nothing that the client
// sends on that channel is handed to the script, until it opens it again.
func (c *Conn) CloseChannel(channel, code uint16, text string) error {
	c.mu.Lock()
	if ch := c.channels[channel]; ch != nil {
		ch.closing = true
	}
	c.mu.Unlock()
	return c.sendMethod(channel, newArgs(channelClose).short(code).shortstr(text).short(0).short(0))
}

// Close sends a connection exception; the client answers and hangs up.
func (c *Conn) Close(code uint16, text string) error {
	return c.sendMethod(0, newArgs(connectionClose).short(code).shortstr(text).short(0).short(0))
}

// Blocked tells the client that the broker takes no more messages. The peer
// goes on reading: see StopReading.
func (c *Conn) Blocked(reason string) error {
	return c.sendMethod(0, newArgs(connectionBlocked).shortstr(reason))
}

// Unblocked takes Blocked back.
func (c *Conn) Unblocked() error { return c.sendMethod(0, newArgs(connectionUnblocked)) }

// Cut closes the socket without a word. Cutting twice does nothing.
func (c *Conn) Cut() {
	c.once.Do(func() { close(c.cut) })
	_ = c.raw.Close()
}

// StopReading lets the client's bytes pile up until its writes block, while
// heartbeats still go out. A frame that is being read is finished first.
func (c *Conn) StopReading() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.reading:
		c.reading = make(chan struct{})
	default: // Stopped already.
	}
}

// ResumeReading ends StopReading.
func (c *Conn) ResumeReading() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.reading:
	default:
		close(c.reading)
	}
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Channels returns how many channels are open.
func (c *Conn) Channels() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.channels)
}

func (c *Conn) sendMethod(channel uint16, payload args) error {
	return c.send(channel, appendFrame(nil, frameMethod, channel, payload))
}

// send writes whole frames in one piece, so that no other frame gets between.
func (c *Conn) send(channel uint16, frames []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	err := c.raw.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err == nil {
		_, err = c.raw.Write(frames)
	}
	if err != nil {
		return fmt.Errorf("amqp peer: send on channel %d: %w", channel, err)
	}
	return nil
}
