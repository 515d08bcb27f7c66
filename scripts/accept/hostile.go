package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

// hostileCheck gives every field of a message and every setting what nobody should give.
func hostileCheck() check {
	return check{
		name: "hostile",
		about: "hostile values in every field of a message and for every setting: refused by the field's name, " +
			"nothing stored, the connection untouched; what only looks hostile arrives unchanged",
		run: inWorld(worldOptions{privateBroker: true}, func(ctx context.Context, w *world) (figures, error) {
			h := &hostile{
				world: w, exchange: w.name("ex"), queue: w.name("main"),
				good: map[string]model.Message{}, figs: figures{},
			}
			if err := w.route(h.exchange, "fanout", "", amqptest.QueueSpec{Name: h.queue}); err != nil {
				return nil, err
			}
			return h.figs, h.run(ctx)
		}),
	}
}

type hostile struct {
	*world
	exchange, queue string
	svc             *service
	tx              conduit
	good            map[string]model.Message // by id: what must arrive
	figs            figures
}

func (h *hostile) run(ctx context.Context) (err error) {
	if h.svc, err = h.service(ctx, serviceSpec{}); err != nil {
		return err
	}
	if err := h.svc.ready(ctx); err != nil {
		return err
	}
	if h.tx, err = openConduit("database/sql", h.Store, h.dsn); err != nil {
		return err
	}
	h.later(h.tx.close)
	if err := h.accept(ctx, "the first", model.Message{}); err != nil {
		return err
	}
	channels, ports, err := h.links()
	if err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"messages", h.messages},
		{"odd messages", h.oddMessages},
		{"lines", h.lines},
		{"flags", h.flags},
		{"settings", h.settings},
		{"settings files", h.settingsFiles},
	} {
		if err := part.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	if err := h.accept(ctx, "the last", model.Message{}); err != nil {
		return err
	}
	channelsAfter, portsAfter, err := h.links()
	if err != nil {
		return err
	}
	h.Breaches.Equal("connections by name and port", portsAfter, ports)
	h.Breaches.Check(maps.Equal(channelsAfter, channels), "channels: now %v, before %v", channelsAfter, channels)
	return h.check(ctx)
}

// messages gives the library each hostile message alone, in a batch or in a transaction.
func (h *hostile) messages(ctx context.Context) error {
	ways := []func(context.Context, hostileMessage) (int, error){h.alone, h.inBatch, h.inTransaction}
	list := h.hostileMessages()
	for _, bad := range list {
		index, err := ways[h.Rand.IntN(len(ways))](ctx, bad)
		h.refused(bad, err, index)
	}
	h.figs["messages_refused"] = len(list)
	return h.nothingStored(ctx, "hostile messages")
}

func (h *hostile) alone(ctx context.Context, bad hostileMessage) (index int, err error) {
	_, err = h.svc.pub.Publish(ctx, bad.message)
	return -1, err
}

// inBatch puts it among good ones: one bad message fails the batch, and is named.
func (h *hostile) inBatch(ctx context.Context, bad hostileMessage) (index int, err error) {
	batch := make([]model.Message, 2+h.Rand.IntN(20))
	for i := range batch {
		batch[i] = h.message(h.exchange, "key", i, 64)
	}
	index = h.Rand.IntN(len(batch))
	batch[index] = bad.message
	_, err = h.svc.pub.PublishBatch(ctx, batch)
	return index, err
}

func (h *hostile) inTransaction(ctx context.Context, bad hostileMessage) (index int, err error) {
	return -1, h.tx.transaction(ctx, h.svc.pub, func(s session) error {
		if err := s.out.Publish(ctx, h.message(h.exchange, "key", 0, 64)); err != nil {
			return err
		}
		return s.out.Publish(ctx, bad.message)
	})
}

// refused checks the error: its type, the field it names, and that its text may be printed.
func (h *hostile) refused(bad hostileMessage, err error, index int) {
	var invalid *model.InvalidError
	what := fmt.Sprintf("%s: %s", bad.field, bad.what)
	if !h.Breaches.Check(errors.As(err, &invalid), "%s: got %v, want an InvalidError", what, err) {
		return
	}
	h.Breaches.Check(errors.Is(err, model.ErrInvalid), "%s: %v is not ErrInvalid", what, err)
	named := invalid.Field == bad.field || bad.field == "headers" && strings.HasPrefix(invalid.Field, "headers")
	h.Breaches.Check(named, "%s: the error names %q: %v", what, invalid.Field, err)
	h.Breaches.Equal(what+": index", invalid.Index, index)
	text := err.Error()
	h.Breaches.Check(strings.Contains(text, bad.field) && len(text) < 4096 && printable(text),
		"%s: the error is no text to print: %q", what, text)
}

// printable reports whether a text can go to a log or a terminal.
func printable(text string) bool {
	control := func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }
	return utf8.ValidString(text) && !strings.ContainsFunc(text, control)
}

// oddMessages sends what only looks hostile.
func (h *hostile) oddMessages(ctx context.Context) error {
	list := h.oddities()
	for _, odd := range list {
		if err := h.accept(ctx, odd.what, odd.message); err != nil {
			return err
		}
	}
	h.figs["messages_accepted"] = len(list)
	return h.nothingStored(ctx, "odd messages")
}

// accept publishes a message, which a queue must take.
func (h *hostile) accept(ctx context.Context, what string, m model.Message) error {
	m.Exchange = h.exchange
	receipt, err := h.svc.pub.Publish(ctx, m)
	if !h.Breaches.Check(err == nil, "%s: refused: %v", what, err) {
		return nil
	}
	o, err := receipt.Wait(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	h.Breaches.Check(o.Kind == model.Acked, "%s: outcome %v %s %s", what, o.Kind, o.Code, o.Text)
	h.good[receipt.ID()] = m
	return nil
}

// nothingStored waits until what was accepted is deleted.
func (h *hostile) nothingStored(ctx context.Context, after string) error {
	err := until(ctx, 20*time.Second, "no row is left after "+after, h.db.empty)
	if ctx.Err() != nil {
		return err
	}
	h.Breaches.Check(err == nil, "%v", err)
	return nil
}

// check compares the queue with what was accepted.
func (h *hostile) check(ctx context.Context) error {
	if err := h.nothingStored(ctx, "all"); err != nil {
		return err
	}
	got, err := h.harvest(ctx, h.queue)
	if err != nil {
		return err
	}
	for _, d := range got {
		m, ok := h.good[d.MessageId]
		if h.Breaches.Check(ok, "a refused message was sent: key %q, body %.40q", d.RoutingKey, d.Body) {
			h.compare(d, m)
		}
	}
	h.Breaches.Equal("deliveries", len(got), len(h.good))
	h.figs["deliveries"] = len(got)
	return nil
}

func (h *hostile) compare(d amqp.Delivery, m model.Message) {
	p := m.Properties
	for _, f := range []struct{ field, got, want string }{
		{"routing_key", d.RoutingKey, m.RoutingKey},
		{"content_type", d.ContentType, p.ContentType},
		{"content_encoding", d.ContentEncoding, p.ContentEncoding},
		{"correlation_id", d.CorrelationId, p.CorrelationID},
		{"reply_to", d.ReplyTo, p.ReplyTo},
		{"expiration", d.Expiration, p.Expiration},
		{"type", d.Type, p.Type},
		{"app_id", d.AppId, p.AppID},
		{"body", string(d.Body), string(m.Body)},
	} {
		h.Breaches.Check(f.got == f.want, "%s: got %.80q, want %.80q", f.field, f.got, f.want)
	}
	for name, want := range m.Headers {
		got, ok := d.Headers[name]
		h.Breaches.Check(ok && fmt.Sprint(got) == fmt.Sprint(want), "header %.60q: got %.80v, want %.80v",
			name, got, want)
	}
	h.Breaches.Equal("number of headers", len(d.Headers), len(m.Headers))
	if !p.Timestamp.IsZero() {
		h.Breaches.Equal("timestamp", d.Timestamp.Unix(), p.Timestamp.Unix())
	}
}
