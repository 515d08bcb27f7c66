package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/transmsg/transmsg/model"
)

// poisonKind is one kind of row that must not hurt others.
type poisonKind struct {
	name    string
	message func() model.Message
	spoil   func(ctx context.Context, id string) error // by SQL: what the library refuses to store
	state   string                                     // status and code in the end
	text    string                                     // part of the cause's words
	ids     []string
}

func (p *poison) kinds() []poisonKind {
	to := func(exchange string) func() model.Message {
		return func() model.Message { return p.message(exchange, "key", 0, 256) }
	}
	good := to(p.name("good"))
	properties := func(text func() string) func(context.Context, string) error {
		return func(ctx context.Context, id string) error {
			return p.db.exec(ctx, "UPDATE trans_message SET properties = ? WHERE id = ?", []byte(text()), id)
		}
	}
	return []poisonKind{
		{name: "missing exchange", message: to(p.name("missing")), state: "READY 404", text: p.name("missing")},
		{name: "no permission", message: to(p.name("forbidden")), state: "READY 403", text: p.name("forbidden")},
		{name: "internal exchange", message: to(p.name("internal")), state: "READY 403", text: p.name("internal")},
		{name: "oversize", state: "DEAD 406", text: "larger than", message: func() model.Message {
			m := good()
			m.Body = bytesOf(p.Rand, poisonMaxBody+1+p.Rand.IntN(poisonMaxBody))
			return m
		}},
		{name: "corrupt properties", message: good, state: "DEAD corrupt", spoil: properties(func() string {
			return []string{
				"", "{", "no json", `{"v":1,"headers":{"n":["?",3]}}`, `{"v":1,"headers":{"n":["x","%"]}}`,
				`{"v":1,"priority":"high"}`, "\xff\x00",
			}[p.Rand.IntN(7)]
		})},
		{name: "newer codec", message: good, state: "READY newer-codec", spoil: properties(func() string {
			return fmt.Sprintf(`{"v":%d,"colour":"red"}`, 2+p.Rand.IntN(1000))
		})},
		{name: "frame-size headers", message: good, state: "DEAD invalid", spoil: properties(func() string {
			return `{"v":1,"headers":{"big":["S","` + strings.Repeat("x", 131_072+p.Rand.IntN(100_000)) + `"]}}`
		})},
		{name: "CR in a name", message: good, state: "DEAD invalid", spoil: func(ctx context.Context, id string) error {
			return p.db.exec(ctx, "UPDATE trans_message SET exchange = ? WHERE id = ?",
				p.name("good")+[]string{"\r", "\r\n", "\n"}[p.Rand.IntN(3)], id)
		}},
	}
}

// revoked takes the right to one exchange away, stores many rows for it, counts the
// channels that the broker opens meanwhile, and gives the right back.
func (p *poison) revoked(ctx context.Context) error {
	if err := p.node.SetPermissions("compensator", "/", "", p.may(false), ""); err != nil {
		return err
	}
	// Probes of other broken exchanges open channels too.
	if err := p.db.exec(ctx, "DELETE FROM trans_message"); err != nil {
		return err
	}
	before, err := p.channels()
	if err != nil {
		return err
	}
	messages := make([]model.Message, poisonRevoked)
	for i := range messages {
		messages[i] = model.Message{Exchange: p.name("revoked"), Body: bytesOf(p.Rand, 1+p.Rand.IntN(100))}
	}
	ids, err := p.shelve(ctx, "revoked", messages)
	if err != nil {
		return err
	}
	if err := until(ctx, time.Minute, "the broker has refused", func(ctx context.Context) (bool, error) {
		n, err := p.db.count(ctx, "service = 'revoked' AND last_code = '403'")
		return n > 0, err
	}); err != nil {
		return err
	}
	time.Sleep(poisonWatch) // For as long channels are counted.
	opened, err := p.channels()
	if err != nil {
		return err
	}
	waiting, err := p.db.count(ctx, "service = 'revoked' AND status = 'READY'")
	if err != nil {
		return err
	}
	p.Breaches.AtMost("channels opened while the right was revoked", int64(opened-before), poisonHandful)
	// The broker may let some pass by what it had cached.
	p.Breaches.AtLeast("rows waiting for the right", int64(waiting), poisonRevoked*9/10)
	p.figs["channels_opened_while_revoked"], p.figs["rows_revoked_waiting"] = opened-before, waiting
	return p.givenBack(ctx, ids)
}

// givenBack gives the right back and wants all to arrive, once.
func (p *poison) givenBack(ctx context.Context, ids []string) error {
	if err := p.node.SetPermissions("compensator", "/", "", p.may(true), ""); err != nil {
		return err
	}
	begin := time.Now()
	gone := func(ctx context.Context) (bool, error) {
		n, err := p.db.count(ctx, "service = 'revoked'")
		return n == 0, err
	}
	if err := until(ctx, 2*time.Minute, "the revoked exchange's rows are gone", gone); err != nil {
		p.Breaches.Add("%v", err)
	}
	p.figs["seconds_to_drain_revoked"] = time.Since(begin).Seconds()
	if err := p.stopAll(p.all); err != nil {
		return err
	}
	got, err := p.harvest(ctx, p.name("late"))
	if err != nil {
		return err
	}
	n, missing := times(got), 0
	for _, id := range ids {
		missing += btoi(n[id] == 0)
	}
	p.Breaches.Equal("messages of the revoked exchange not delivered", missing, 0)
	p.Breaches.Equal("deliveries of the revoked exchange", len(got), poisonRevoked)
	return nil
}

// channels returns how many channels the broker has opened since it started.
func (p *poison) channels() (n int, err error) {
	out, err := p.node.Eval("element(4, hd(ets:lookup(connection_churn_metrics, node()))).")
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(out, &n)
	return n, err
}
