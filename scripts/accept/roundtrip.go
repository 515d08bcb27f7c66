package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"reflect"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

// roundtripCheck sends messages with everything that AMQP can carry, from memory
// and from the table, and compares what a consumer gets field by field.
func roundtripCheck() check {
	return check{
		name:   "roundtrip",
		about:  "headers of every AMQP type, all properties, hard bodies: equal, sent directly and from the table",
		stores: "all",
		run: inWorld(worldOptions{}, func(ctx context.Context, w *world) (figures, error) {
			r := &roundtrip{world: w, exchange: w.name("ex"), queue: w.name("main"), key: w.name("key")}
			if err := w.route(r.exchange, "topic", r.key, amqptest.QueueSpec{Name: r.queue}); err != nil {
				return nil, err
			}
			return r.run(ctx)
		}),
	}
}

type roundtrip struct {
	*world
	exchange, queue, key string
	since                time.Time
	sent                 map[string]specimen // by message id
}

// specimen is one message and what its headers must be at the consumer.
type specimen struct {
	name    string
	message model.Message
	headers amqp.Table
}

func (r *roundtrip) run(ctx context.Context) (figures, error) {
	svc, err := r.service(ctx, serviceSpec{})
	if err != nil {
		return nil, err
	}
	if err := svc.ready(ctx); err != nil {
		return nil, err
	}
	specimens := r.specimens()
	r.since, r.sent = time.Now(), map[string]specimen{}
	if err := r.directly(ctx, svc, specimens); err != nil {
		return nil, err
	}
	if err := r.stored(ctx, svc, specimens); err != nil {
		return nil, err
	}
	if _, err := r.compensate("--interval", "100ms"); err != nil {
		return nil, err
	}
	if err := until(ctx, time.Minute, "the table is empty", r.db.empty); err != nil {
		return nil, err
	}
	got, err := r.harvest(ctx, r.queue)
	if err != nil {
		return nil, err
	}
	fields := 0
	for _, d := range got {
		s, ok := r.sent[d.MessageId]
		if r.Breaches.Check(ok, "delivery of %q, which nobody published", d.MessageId) {
			fields += r.compare(s, d)
		}
	}
	for id, n := range times(got) {
		r.Breaches.Equal("deliveries of "+r.sent[id].name, n, 1)
	}
	r.Breaches.Equal("deliveries", len(got), 2*len(specimens))
	return figures{"specimens": len(specimens), "deliveries": len(got), "fields_compared": fields}, nil
}

// directly sends from memory: the first send is acked.
func (r *roundtrip) directly(ctx context.Context, svc *service, specimens []specimen) error {
	for _, s := range specimens {
		receipt, err := svc.pub.Publish(ctx, s.message)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		o, err := receipt.Wait(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		r.Breaches.Equal("outcome of "+s.name, o.Kind, model.Acked)
		s.name += " sent directly"
		r.sent[receipt.ID()] = s
	}
	return nil
}

// stored stores for later, which this process never sends: the table is all
// that the compensator has.
func (r *roundtrip) stored(ctx context.Context, svc *service, specimens []specimen) error {
	for _, s := range specimens {
		m := s.message
		m.NotBefore = time.Now().Add(time.Duration(100+r.Rand.IntN(400)) * time.Millisecond)
		receipt, err := svc.pub.Publish(ctx, m)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		o, err := receipt.Wait(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		r.Breaches.Equal("outcome of "+s.name+" stored for later", o.Kind, model.Deferred)
		s.name += " after the table"
		r.sent[receipt.ID()] = s
	}
	n, err := r.db.count(ctx, "version = 0 AND status = 'READY'")
	r.Breaches.Equal("rows before the compensator starts", n, len(specimens))
	return err
}

// compare looks at every field of a delivery and returns how many.
func (r *roundtrip) compare(s specimen, d amqp.Delivery) int {
	p := s.message.Properties
	pairs := []struct {
		field     string
		got, want any
	}{
		{"exchange", d.Exchange, r.exchange},
		{"routing key", d.RoutingKey, r.key},
		{"delivery mode", d.DeliveryMode, amqp.Persistent},
		{"content type", d.ContentType, p.ContentType},
		{"content encoding", d.ContentEncoding, p.ContentEncoding},
		{"priority", d.Priority, p.Priority},
		{"correlation id", d.CorrelationId, p.CorrelationID},
		{"reply to", d.ReplyTo, p.ReplyTo},
		{"expiration", d.Expiration, p.Expiration},
		{"type", d.Type, p.Type},
		{"app id", d.AppId, p.AppID},
		{"user id", d.UserId, ""},
		{"number of headers", len(d.Headers), len(s.headers)},
	}
	for _, f := range pairs {
		r.Breaches.Check(f.got == f.want, "%s: %s: got %.80q, want %.80q", s.name, f.field, f.got, f.want)
	}
	r.Breaches.Check(bytes.Equal(d.Body, s.message.Body), "%s: body: got %d other bytes, want %d",
		s.name, len(d.Body), len(s.message.Body))
	if want := p.Timestamp; want.IsZero() { // the time of Publish
		r.Breaches.Check(d.Timestamp.Unix() >= r.since.Unix() && !d.Timestamp.After(time.Now()),
			"%s: timestamp %v is not that of Publish", s.name, d.Timestamp)
	} else {
		r.Breaches.Equal(s.name+": timestamp", d.Timestamp.Unix(), want.Unix())
	}
	for k, want := range s.headers {
		got, ok := d.Headers[k]
		r.Breaches.Check(ok && sameValue(got, want), "%s: header %.40q: got %T %.80v, want %T %.80v",
			s.name, k, got, got, want, want)
	}
	return len(pairs) + 2 + len(s.headers)
}

// sameValue wants the same Go type, which is the AMQP type, and the same value;
// -0 is not 0.
func sameValue(got, want any) bool {
	switch w := want.(type) {
	case float64:
		g, ok := got.(float64)
		return ok && math.Float64bits(g) == math.Float64bits(w)
	case float32:
		g, ok := got.(float32)
		return ok && math.Float32bits(g) == math.Float32bits(w)
	case time.Time:
		g, ok := got.(time.Time)
		return ok && g.Equal(w)
	case amqp.Table:
		g, ok := got.(amqp.Table)
		if !ok || len(g) != len(w) {
			return false
		}
		for k, v := range w {
			if e, ok := g[k]; !ok || !sameValue(e, v) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !sameValue(g[i], w[i]) {
				return false
			}
		}
		return true
	case []byte:
		g, ok := got.([]byte)
		return ok && bytes.Equal(g, w)
	default:
		return reflect.DeepEqual(got, want)
	}
}
