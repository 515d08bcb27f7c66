package collector_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/transmsg/transmsg/collector"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

// specimens are properties that a broker delivers and no typed form holds.
func specimens() map[string]string {
	table := func(fields string) string {
		n := len(fields)
		return "\x20\x00" + string([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + fields
	}
	deep := ""
	for range 40 { // the client library ends the connection at 33
		n := len(deep)
		deep = "A" + string([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) + deep
	}
	var many strings.Builder
	for i := range 9000 { // and at 8193
		many.WriteString("\x02" + string([]byte{byte(i >> 8), byte(i)}) + "V")
	}
	return map[string]string{
		"nothing": "\x00\x00", "an empty table": table(""), "an empty id": "\x00\x80\x00", "transient": "\x10\x00\x01",
		"a name twice": table("\x01aV\x01at\x01"), "an order": table("\x01bV\x01aV"),
		"not UTF-8": table("\x02\xff\x00S\x00\x00\x00\x02\xfe\x00"),
		"deep":      table("\x01d" + deep), "many": table(many.String()),
		"empty strings": "\xc0\x00\x00\x00", "expiration": "\x01\x00\x0899999999",
		"the id is bytes":       "\x00\x80\x03\xff\x00'",
		"the year 292277026596": "\x00\x40\x7f\xff\xff\xff\xff\xff\xff\xff",
		"priority 0":            "\x08\x00\x00",
	}
}

// TestCollectsEveryByte: what the broker delivers is stored byte for byte, also what ends the client library's
// connection, and nothing is left.
func TestCollectsEveryByte(t *testing.T) {
	onDatabases(t, func(t *testing.T, r *rig) {
		body := make([]byte, 256)
		for i := range body {
			body[i] = byte(i)
		}
		want := map[string]string{}
		for name, properties := range specimens() {
			b := append([]byte(name), body...)
			r.publish([]byte(properties), b)
			want[string(b)] = properties
		}
		c, stop := r.start(r.config())
		eventually(t, "all are stored", func() bool { return r.count() == len(want) })
		r.nothingLeft(c, stop)
		for _, l := range r.letters() {
			properties, ok := want[string(l.Payload)]
			if !ok {
				t.Errorf("stored twice, or not as it was: a body %.40q", l.Payload)
			}
			delete(want, string(l.Payload))
			// Quorum queues add a header to what was delivered before, and no other bytes.
			if string(l.Properties) != properties {
				t.Errorf("%.30q: properties %q, want %q", l.Payload, l.Properties, properties)
			}
			if l.Queue != dead || l.Service != collector.DefaultService || l.Status != model.LetterOpen {
				t.Errorf("%.30q: %+v", l.Payload, l)
			}
		}
	})
}

// TestEqualBodiesWithoutIDAreNotMerged: two honest messages may be equal.
func TestEqualBodiesWithoutIDAreNotMerged(t *testing.T) {
	onDatabases(t, func(t *testing.T, r *rig) {
		for range 100 {
			r.publish([]byte("\x00\x00"), []byte("same"))
		}
		c, stop := r.start(r.config())
		eventually(t, "100 are stored", func() bool { return r.count() == 100 })
		r.nothingLeft(c, stop)
	})
}

// failing is a store that commits and then fails, as one whose answer was lost, or does not commit.
type failing struct {
	collector.Store
	left   atomic.Int64
	before bool
}

func (f *failing) Collect(ctx context.Context, letters []model.DeadLetter) error {
	fails := f.left.Add(-1) >= 0
	if fails && f.before {
		return errors.New("the store is away")
	}
	err := f.Store.Collect(ctx, letters)
	if err == nil && fails {
		err = errors.New("the answer was lost")
	}
	return err
}

// TestOneRowForEachRejection: also where the commit's answer is lost and where a collector ends between commit and ack.
func TestOneRowForEachRejection(t *testing.T) {
	onDatabases(t, func(t *testing.T, r *rig) {
		const n = 300
		for i := range n {
			m := model.Message{ID: fmt.Sprintf("order-%d", i), Headers: map[string]any{
				model.HeaderRejection: model.NewID(), model.HeaderQueue: "pay",
			}}
			r.publish(model.EncodeWire(&m), []byte("body"))
		}
		store := &failing{Store: r.store}
		store.left.Store(5)
		cfg := r.config()
		cfg.Store, cfg.Prefetch = store, 40
		for range 3 {
			c, stop := r.start(cfg)
			eventually(t, "something is stored", func() bool { return c.States()[0].Collected > 0 || r.count() == n })
			stop() // in the middle of it, most likely
		}
		c, stop := r.start(cfg)
		eventually(t, "all are stored", func() bool { return r.count() == n })
		r.nothingLeft(c, stop)
		ids := map[string]bool{}
		for _, l := range r.letters() {
			ids[string(l.WireID)] = true
			if l.Queue != "pay" {
				t.Errorf("queue %q, want pay", l.Queue)
			}
		}
		if rows := r.count(); rows != n || len(ids) != n {
			t.Errorf("%d rows of %d messages, want %d of each", rows, len(ids), n)
		}
	})
}

// TestNothingIsAckedBeforeItsCommit: while the store is away the letters stay in their queue.
func TestNothingIsAckedBeforeItsCommit(t *testing.T) {
	onDatabases(t, func(t *testing.T, r *rig) {
		for i := range 10 {
			r.publish([]byte("\x00\x80\x01"+string(rune('a'+i))), []byte("body"))
		}
		store := &failing{Store: r.store, before: true}
		store.left.Store(1 << 40)
		cfg := r.config()
		cfg.Store = store
		c, stop := r.start(cfg)
		eventually(t, "a try failed", func() bool { return c.States()[0].Failed > 0 })
		if s := c.States()[0]; s.Reason == "" || s.Collected > 0 {
			t.Errorf("state %+v, want a reason and nothing collected", s)
		}
		stop()
		eventually(t, "all are in their queue again", func() bool {
			n, err := r.client.Depth(dead)
			return err == nil && n == 10
		})
		store.left.Store(0)
		c, stop = r.start(cfg)
		eventually(t, "all are stored", func() bool { return r.count() == 10 })
		r.nothingLeft(c, stop)
	})
}

// TestK10_WhatCannotBeStoredIsSetAside: it goes to its queue with all that it had, people are told, and what is behind
// it is collected.
func TestK10_WhatCannotBeStoredIsSetAside(t *testing.T) {
	onDatabases(t, func(t *testing.T, r *rig) {
		if r.store.Dialect() != "mysql" {
			return // a statement on PostgreSQL takes up to 1 GiB, which no broker does
		}
		must(t, r.client.DeleteQueue(aside))
		const behind = 200
		large := bytes.Repeat([]byte{'x'}, r.store.MaxBody()+1)
		const properties = "\x20\x80\x00\x00\x00\x06\x01aV\x01aV\x05large"
		r.publish([]byte(properties), large)
		for range behind {
			r.publish([]byte("\x00\x00"), []byte("small"))
		}
		c, stop := r.start(r.config())
		eventually(t, "those behind it are stored", func() bool { return r.count() == behind })
		eventually(t, "the missing queue is told of", func() bool {
			s := c.States()[0]
			return s.Failed > 0 && strings.Contains(s.Reason, aside)
		})
		if s := c.States()[0]; s.Aside > 0 || s.Held != 1 {
			t.Errorf("state %+v, want one letter held", s)
		}
		must(t, r.client.Queue(amqptest.QueueSpec{Name: aside, Type: amqptest.Quorum}))
		r.nothingLeft(c, stop)
		got, err := r.client.Collect(t.Context(), aside, 1)
		must(t, err)
		raw, _ := got[0].Headers[collector.HeaderProperties].([]byte)
		if !bytes.Equal(got[0].Body, large) || string(raw) != properties || got[0].MessageId != "large" {
			t.Errorf("set aside: %d bytes, properties %q, id %q", len(got[0].Body), raw, got[0].MessageId)
		}
		alerts := r.told()
		if len(alerts) != 1 || alerts[0].Kind != model.AlertUncollectable || alerts[0].Sample.ID != "large" ||
			!strings.Contains(alerts[0].Text, dead) {
			t.Errorf("alerts %+v, want one of the letter, with its queue", alerts)
		}
	})
}

func TestConfigIsRefused(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, url: "amqp://guest:guest@127.0.0.1:5672/"}
	for want, change := range map[string]func(*collector.Config){
		"Queues is empty": func(c *collector.Config) { c.Queues = nil },
		"there twice":     func(c *collector.Config) { c.Queues = []string{"a", "b", "a"} },
		"is the one for":  func(c *collector.Config) { c.Queues = []string{aside} },
		"Prefetch 1001":   func(c *collector.Config) { c.Prefetch = 1001 },
		"Service":         func(c *collector.Config) { c.Service = " a " },
		"Store is nil":    func(c *collector.Config) { c.Store = nil },
		"Sender is nil":   func(c *collector.Config) { c.Sender = nil },
	} {
		cfg := r.config()
		cfg.Store, cfg.Sender = &failing{}, fakeSender{}
		change(&cfg)
		if _, err := collector.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
}

// fakeSender is never called.
type fakeSender struct{ collector.Sender }
