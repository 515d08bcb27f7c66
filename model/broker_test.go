package model_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

// Whatever passes the validator is carried to the broker and back by the client, equal
// to the last type, and takes exactly the frame that was computed.
func TestC17_AnyValidMessageIsSendable(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	rapid.Check(t, func(t *rapid.T) {
		m := normalize(t, anyMessage().Draw(t, "message"))
		m.RoutingKey = "." + m.RoutingKey[:min(len(m.RoutingKey), 200)] // no queue has such a name
		back, size := w.send(t, "", &m)
		if want := model.HeaderFrameSize(&m); size != want {
			t.Fatalf("got a header frame of %d bytes, computed %d", size, want)
		}
		if back == nil {
			t.Fatal("the message was not returned")
		}
		checkReturned(t, m, returned(back))
	})
}

func checkReturned(tb rapid.TB, want, got model.Message) {
	tb.Helper()
	// These are not part of what is sent, or not of what is compared.
	want.Key, want.Exchange, want.AllowUnroutable = "", "", false
	if !bytes.Equal(want.Body, got.Body) {
		tb.Fatalf("got a body of %d bytes that differs from the %d sent", len(got.Body), len(want.Body))
	}
	want.Body, got.Body = nil, nil
	if diff := diffExact(want, got); diff != "" {
		tb.Fatalf("(-sent +returned):\n%s", diff)
	}
}

// Each field at its bound is taken by the broker, and read back by the client.
func TestC16_BoundsAreTakenByTheBroker(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 127) + "x"
	fill := func(n int) []any { return make([]any, n) }
	table := map[string]any{}
	for i := range model.MaxElements {
		table[fmt.Sprint(i)] = nil
	}
	w := newWire(t)
	for _, tc := range []struct {
		name string
		m    model.Message
	}{
		{"nothing set", model.Message{}},
		{"routing key", model.Message{RoutingKey: long}},
		{"key", model.Message{Key: long}},
		{"all strings", model.Message{Properties: model.Properties{
			ContentType: long, ContentEncoding: long, CorrelationID: long, ReplyTo: long, Type: long, AppID: long,
		}}},
		{"control characters", model.Message{RoutingKey: "\x01\r\n\x7f", Properties: model.Properties{Type: "\r\n\t"}}},
		{"direct reply-to look-alikes", model.Message{RoutingKey: "amq.rabbitmq.reply-t"}},
		{"priority", model.Message{Properties: model.Properties{Priority: 255}}},
		{"expiration 0", model.Message{Properties: model.Properties{Expiration: "0"}}},
		{"expiration padded", model.Message{Properties: model.Properties{Expiration: "007"}}},
		{"expiration longest", model.Message{
			Properties: model.Properties{Expiration: strings.Repeat("0", 245) + "4294967295"},
		}},
		{"timestamp 1970", model.Message{Properties: model.Properties{Timestamp: time.Unix(0, 0)}}},
		{"timestamp far", model.Message{Properties: model.Properties{Timestamp: time.Unix(1<<40, 0)}}},
		{"header name", model.Message{Headers: map[string]any{long: int8(1), "": "no name"}}},
		{"header time before 1970", model.Message{Headers: map[string]any{"t": time.Unix(-1<<40, 0)}}},
		{"header array", model.Message{Headers: map[string]any{"a": fill(model.MaxElements)}}},
		{"header table", model.Message{Headers: map[string]any{"a": table}}},
		{"headers", model.Message{Headers: table}},
		{"header depth", model.Message{Headers: map[string]any{"a": nested(model.MaxDepth)}}},
		{"odd headers", model.Message{
			Headers: map[string]any{"cc": "q", "x-match": int8(3), "x-delay": "soon"},
		}},
		{"body", model.Message{Body: make([]byte, model.DefaultMaxBody)}},
		{"header frame", model.Message{Headers: map[string]any{"big": strings.Repeat("x", largestHeader(t))}}},
	} {
		t.Run(tc.name, func(t *testing.T) { // one after the other: they share the channel
			m := tc.m
			m.Exchange = "any" // sent to the default exchange, which this broker has
			m = normalize(t, m)
			back, size := w.send(t, "", &m)
			if want := model.HeaderFrameSize(&m); size != want {
				t.Errorf("got a header frame of %d bytes, computed %d", size, want)
			}
			if back == nil {
				t.Fatal("the message was not returned")
			}
			checkReturned(t, m, returned(back))
		})
	}
}

// The longest exchange name is one the broker can have.
func TestC16_ExchangeOf255Bytes(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	m := normalize(t, model.Message{Exchange: strings.Repeat("é", 127) + "x"})
	if err := w.ch.ExchangeDeclare(m.Exchange, "fanout", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if back, _ := w.send(t, m.Exchange, &m); back == nil || back.Exchange != m.Exchange {
		t.Errorf("got %+v, want a return from the exchange", back)
	}
}

// nested returns an array in an array, n deep.
func nested(n int) any {
	var v any = []any{}
	for range n - 1 {
		v = []any{v}
	}
	return v
}

// largestHeader is the length of the one header that fills the frame to the limit.
func largestHeader(t *testing.T) int {
	t.Helper()
	m := normalize(t, model.Message{RoutingKey: "q", Headers: map[string]any{"big": ""}})
	return model.DefaultFrameMax - model.FrameHeadroom - model.HeaderFrameSize(&m)
}

// Without the limits the client closes its own connection when such a message is
// returned: this is what the validator prevents.
func TestC16_ClientCannotReadBeyondTheLimits(t *testing.T) {
	t.Parallel()
	const libraryLimit = 8192
	for name, headers := range map[string]map[string]any{
		"array": {"a": make([]any, libraryLimit+1)},
		"depth": {"a": nested(model.MaxDepth + 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := model.NormalizeHeaders(headers); err == nil {
				t.Error("the validator lets it through")
			}
			c := amqptest.Connect(t, amqptest.VHost(t))
			if err := c.Queue(amqptest.QueueSpec{Name: "q"}); err != nil {
				t.Fatal(err)
			}
			m := model.Message{ID: model.NewID(), Headers: headers}
			if err := c.Publish(t.Context(), "", "q", publishing(&m)); err != nil {
				t.Fatalf("the broker takes it: %v", err)
			}
			if got, err := c.Drain("q"); err == nil {
				t.Errorf("got %d messages: the client reads it now, the limit may be raised", len(got))
			}
		})
	}
}
