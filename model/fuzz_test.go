package model_test

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

// FuzzDecodeProperties feeds the codec arbitrary rows: it must not panic, its error is
// one of two, and what it takes is exactly what is stored again and sent.
func FuzzDecodeProperties(f *testing.F) {
	m := everyType()
	m, err := model.Normalize(m, testNow(), model.Limits{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(model.EncodeProperties(&m, true))
	f.Fuzz(func(t *testing.T, in []byte) {
		var first model.Message
		if err := model.DecodeProperties(in, &first); err != nil {
			if !errors.Is(err, model.ErrCorrupt) && !errors.Is(err, model.ErrNewerCodec) {
				t.Fatalf("got %v, want ErrCorrupt or ErrNewerCodec", err)
			}
			return
		}
		if (&model.TransMessage{Properties: in}).IsReplay() { // FuzzWireView's
			return
		}
		again := model.EncodeProperties(&first, false)
		var second model.Message
		if err := model.DecodeProperties(again, &second); err != nil {
			t.Fatalf("decode %s: %v", again, err)
		}
		if diff := diffExact(first, second); diff != "" {
			t.Fatalf("(-first +second):\n%s", diff)
		}
		if third := model.EncodeProperties(&second, false); !bytes.Equal(again, third) {
			t.Fatalf("got %s, want %s", third, again)
		}
		checkNormalized(t, &first)
		model.HeaderFrameSize(&first)
		_ = model.Check(&first, model.Limits{})
	})
}

const someID = "0190a5b2-7a3e-7c11-8f00-000000000001"

// checkNormalized checks that the headers are what NormalizeHeaders would make of them,
// where it does not refuse their names, as Check does too.
func checkNormalized(t *testing.T, m *model.Message) {
	t.Helper()
	callers := maps.Clone(m.Headers)
	stored := model.Message{ID: someID, RoutingKey: "q", Headers: m.Headers}
	if model.Check(&stored, model.Limits{FrameMax: 1 << 30}) == nil {
		delete(callers, model.HeaderRevision)
		delete(callers, model.HeaderStoredAt)
	}
	headers, err := model.NormalizeHeaders(callers)
	if err != nil {
		m := *m
		m.ID = someID
		if model.Check(&m, model.Limits{FrameMax: 1 << 30}) == nil {
			t.Fatalf("normalize decoded headers: %v, and Check does not object", err)
		}
		return
	}
	if diff := diffHeaders(callers, headers); diff != "" {
		t.Fatalf("(-decoded +normalized):\n%s", diff)
	}
}

// FuzzCheckedMessage: what the codec reads and Check lets through, as the compensator does
// with every row, the broker takes. It comes back as it went, and the connection stays.
func FuzzCheckedMessage(f *testing.F) {
	w := &wire{url: amqptest.VHost(f)} // no queue is in it: everything comes back
	w.dial(f)
	f.Cleanup(func() { w.conn.Close() })
	m := normalize(f, everyType())
	f.Add(model.EncodeProperties(&m, false), m.RoutingKey, m.Body)
	f.Add([]byte(`{"v":1}`), "amq.rabbitmq.reply-to.x", []byte(nil))
	f.Add([]byte(`{"v":1}`), strings.Repeat("é", 128), []byte("256 bytes"))
	f.Fuzz(func(t *testing.T, properties []byte, key string, body []byte) {
		m := model.Message{ID: "0190a5b2-7a3e-7c11-8f00-000000000001", RoutingKey: key, Body: body}
		if (&model.TransMessage{Properties: properties}).IsReplay() { // Check is not for those
			return
		}
		if model.DecodeProperties(properties, &m) != nil || model.Check(&m, model.Limits{}) != nil {
			return
		}
		if m.Properties.Timestamp.IsZero() {
			m.Properties.Timestamp = testNow()
		}
		back, size := w.send(t, "", &m)
		if want := model.HeaderFrameSize(&m); size != want {
			t.Fatalf("got a header frame of %d bytes, computed %d", size, want)
		}
		if back == nil {
			t.Fatal("the message was not returned")
		}
		m.Body = append([]byte{}, m.Body...) // nil and empty are the same on the wire
		checkReturned(t, m, returned(back))
	})
}
