package model_test

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"pgregory.net/rapid"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

const wireTimeout = 30 * time.Second

// wire is a channel in confirm mode on the real broker that notes the size of every
// content header frame the client writes.
type wire struct {
	url     string
	conn    *amqp.Connection
	ch      *amqp.Channel
	returns chan amqp.Return
	closed  chan *amqp.Error
	tap     *frameTap
}

func newWire(t *testing.T) *wire {
	t.Helper()
	w := &wire{url: amqptest.VHost(t)}
	t.Cleanup(func() { w.conn.Close() })
	w.dial(t)
	return w
}

func (w *wire) dial(tb rapid.TB) {
	tb.Helper()
	w.tap = &frameTap{}
	w.returns = make(chan amqp.Return, 1)
	w.closed = make(chan *amqp.Error, 1)
	var err error
	w.conn, err = amqp.DialConfig(w.url, amqp.Config{
		Dial: func(network, addr string) (net.Conn, error) {
			c, err := net.DialTimeout(network, addr, wireTimeout)
			w.tap.Conn = c
			return w.tap, err
		},
	})
	if err != nil {
		tb.Fatalf("dial: %v", err)
	}
	if w.ch, err = w.conn.Channel(); err != nil {
		tb.Fatalf("open channel: %v", err)
	}
	if err := w.ch.Confirm(false); err != nil {
		tb.Fatalf("confirm mode: %v", err)
	}
	w.ch.NotifyReturn(w.returns)
	w.ch.NotifyClose(w.closed)
}

// send publishes m mandatory to an exchange and waits for the ack. It returns what the
// broker returned, if it did, and the size of the content header frame.
func (w *wire) send(tb rapid.TB, exchange string, m *model.Message) (*amqp.Return, int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wireTimeout)
	defer cancel()
	if w.ch.IsClosed() { // by a failed try, so that rapid can shrink it
		w.conn.Close()
		w.dial(tb)
	}
	w.tap.take()
	dc, err := w.ch.PublishWithDeferredConfirmWithContext(ctx, exchange, m.RoutingKey, true, false, publishing(m))
	if err != nil {
		tb.Fatalf("publish: %v", err)
	}
	if acked, err := dc.WaitContext(ctx); err != nil || !acked {
		tb.Fatalf("got acked %v, %v; channel closed: %v", acked, err, <-w.closed)
	}
	var back *amqp.Return
	select { // a return comes before its ack
	case r := <-w.returns:
		back = &r
	default:
	}
	sizes := w.tap.take()
	if len(sizes) != 1 {
		tb.Fatalf("got %d content header frames, want 1", len(sizes))
	}
	return back, sizes[0]
}

// frameTap parses what is written to a connection into frames.
type frameTap struct {
	net.Conn
	mu      sync.Mutex
	pending []byte
	greeted bool
	sizes   []int
}

func (f *frameTap) Write(b []byte) (int, error) {
	f.mu.Lock()
	f.pending = append(f.pending, b...)
	if !f.greeted && len(f.pending) >= 8 {
		f.pending, f.greeted = f.pending[8:], true // "AMQP" and the version
	}
	for f.greeted && len(f.pending) >= 7 {
		size := 7 + int(binary.BigEndian.Uint32(f.pending[3:7])) + 1
		if len(f.pending) < size {
			break
		}
		if f.pending[0] == 2 { // content header
			f.sizes = append(f.sizes, size)
		}
		f.pending = f.pending[size:]
	}
	f.mu.Unlock()
	return f.Conn.Write(b)
}

// take returns the sizes noted since the last take.
func (f *frameTap) take() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	sizes := f.sizes
	f.sizes = nil
	return sizes
}

func publishing(m *model.Message) amqp.Publishing {
	p := &m.Properties
	headers, _ := toAMQP(m.Headers).(amqp.Table)
	return amqp.Publishing{
		Headers: headers, ContentType: p.ContentType, ContentEncoding: p.ContentEncoding,
		DeliveryMode: amqp.Persistent, Priority: p.Priority, CorrelationId: p.CorrelationID,
		ReplyTo: p.ReplyTo, Expiration: p.Expiration, MessageId: m.ID, Timestamp: p.Timestamp,
		Type: p.Type, AppId: p.AppID, Body: m.Body,
	}
}

func toAMQP(v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := amqp.Table{}
		for k, e := range x {
			out[k] = toAMQP(e)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = toAMQP(e)
		}
		return out
	case model.Decimal:
		return amqp.Decimal{Scale: x.Scale, Value: x.Value}
	}
	return v
}

func fromAMQP(v any) any {
	switch x := v.(type) {
	case amqp.Table:
		out := map[string]any{}
		for k, e := range x {
			out[k] = fromAMQP(e)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = fromAMQP(e)
		}
		return out
	case amqp.Decimal:
		return model.Decimal{Scale: x.Scale, Value: x.Value}
	case time.Time:
		return x.UTC()
	}
	return v
}

// returned is the message that came back.
func returned(r *amqp.Return) model.Message {
	headers, _ := fromAMQP(r.Headers).(map[string]any)
	if len(headers) == 0 {
		headers = nil
	}
	return model.Message{
		ID: r.MessageId, RoutingKey: r.RoutingKey, Body: r.Body, Headers: headers,
		Properties: model.Properties{
			ContentType: r.ContentType, ContentEncoding: r.ContentEncoding, Priority: r.Priority,
			CorrelationID: r.CorrelationId, ReplyTo: r.ReplyTo, Expiration: r.Expiration,
			Type: r.Type, AppID: r.AppId, UserID: r.UserId, Timestamp: r.Timestamp.UTC(),
		},
	}
}
