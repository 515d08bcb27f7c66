package amqptest

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// RawPublisher publishes messages with properties that the client library cannot write: their bytes are put into the
// frames that it writes. It is for one goroutine.
type RawPublisher struct {
	conn *amqp.Connection
	ch   *amqp.Channel
	wire *rawWriter
}

// NewRawPublisher connects to an AMQP URL. Close it.
func NewRawPublisher(url string) (*RawPublisher, error) {
	p := &RawPublisher{}
	conn, err := amqp.DialConfig(url, amqp.Config{Dial: func(network, addr string) (net.Conn, error) {
		c, err := net.DialTimeout(network, addr, 10*time.Second)
		p.wire = &rawWriter{Conn: c}
		return p.wire, err
	}})
	if err != nil {
		return nil, fmt.Errorf("amqptest: dial: %w", err)
	}
	p.conn = conn
	if p.ch, err = conn.Channel(); err == nil {
		err = p.ch.Confirm(false)
	}
	if err != nil {
		_ = conn.Close() // the first error says more
		return nil, fmt.Errorf("amqptest: open channel: %w", err)
	}
	return p, nil
}

// Close ends the connection.
func (p *RawPublisher) Close() error { return p.conn.Close() }

// Publish sends a message to a queue and waits for its confirm. properties are the flags and the fields, as AMQP writes
// them.
func (p *RawPublisher) Publish(ctx context.Context, queue string, properties, body []byte) error {
	closed := p.conn.NotifyClose(make(chan *amqp.Error, 1))
	p.wire.properties = properties
	dc, err := p.ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, false, false, amqp.Publishing{Body: body})
	if err != nil {
		return fmt.Errorf("amqptest: publish: %w", err)
	}
	acked, err := dc.WaitContext(ctx)
	if err == nil && !acked {
		select {
		case cause := <-closed:
			err = fmt.Errorf("the broker closed the connection: %w", cause)
		default:
			err = fmt.Errorf("nacked, or the channel was closed")
		}
	}
	if err != nil {
		return fmt.Errorf("amqptest: publish: %w", err)
	}
	return nil
}

// rawWriter replaces the properties in content headers. The library calls Write and nothing beside it.
type rawWriter struct {
	net.Conn
	properties []byte // nil leaves them
	buf        []byte
	begun      bool // the protocol's header is out
}

// Write implements net.Conn.
func (w *rawWriter) Write(b []byte) (int, error) {
	if !w.begun {
		w.begun = true
		return w.Conn.Write(b)
	}
	w.buf = append(w.buf, b...)
	var out []byte
	for len(w.buf) >= 7 {
		size := int(binary.BigEndian.Uint32(w.buf[3:])) + 8
		if len(w.buf) < size {
			break
		}
		out, w.buf = append(out, w.frame(w.buf[:size])...), w.buf[size:]
	}
	if _, err := w.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (w *rawWriter) frame(f []byte) []byte {
	const header, start = 2, 7 + 12
	if f[0] != header || w.properties == nil {
		return f
	}
	out := append([]byte{}, f[:start]...)
	out = append(append(out, w.properties...), f[len(f)-1])
	binary.BigEndian.PutUint32(out[3:], uint32(len(out)-8))
	return out
}
