package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/model"
)

// identityCheck stores ids more than once: after a savepoint that was rolled back, by the
// transaction itself or by another process, and after the first row was deleted while what
// its sender had still to write was on its way. Every body is another, so that it tells
// which row was sent.
func identityCheck() check {
	return check{
		name: "identity",
		about: "ids stored again, after savepoints that were rolled back and in a second life: " +
			"committed bodies arrive, rolled-back ones never",
		stores: "all",
		run: inWorld(worldOptions{}, func(ctx context.Context, w *world) (figures, error) {
			c := &identity{
				handlers: &handlers{world: w, exchange: w.name("ex"), queue: w.name("main"), key: w.name("key")},
				bodies:   map[string]*body{}, seen: figures{}, ways: map[string]int{},
			}
			if err := c.prepare(ctx); err != nil {
				return nil, err
			}
			return c.run(ctx)
		}),
	}
}

// identity runs its transactions as the handler check does.
type identity struct {
	*handlers
	rival  *service // another process: its broker is away, so that its rows stay until a compensator comes
	bodies map[string]*body
	seen   figures
	ways   map[string]int // transactions of each way and undoing
}

// body is one content that an id had.
type body struct {
	id, what string
	fate     expected
	times    int // delivered
}

// expected is what must become of a body.
type expected int

const (
	never  expected = iota // rolled back, or refused
	always                 // committed
	maybe                  // deleted by an operator: it may have been sent before
)

func (c *identity) prepare(ctx context.Context) error {
	if err := c.handlers.prepare(ctx); err != nil {
		return err
	}
	proxy, away, err := proxiedURL(c.url)
	if err != nil {
		return err
	}
	c.later(proxy.Close)
	proxy.Refuse(true)
	c.rival, err = c.service(ctx, serviceSpec{AMQP: away, Service: "rival"})
	return err
}

// content returns a message with the id and a body that no other message has.
func (c *identity) content(id, what string) (model.Message, *body) {
	n := len(c.bodies)
	m := c.message(c.exchange, c.key, n, 2048)
	m.ID, m.Body = id, fmt.Appendf(nil, "%d %s %s", n, what, m.Body)
	b := &body{id: id, what: what}
	c.bodies[string(m.Body)] = b
	return m, b
}

// newID is one of the kinds of ids that services use.
func (c *identity) newID() string {
	u := uuid.UUID(bytesOf(c.Rand, 16))
	u[8] = u[8]&0x3f | 0x80
	switch c.Rand.IntN(3) {
	case 0:
		u[6] = u[6]&0x0f | 0x40
	case 1:
		u[6] = u[6]&0x0f | 0x70
	default:
		return model.StableID("identity", u.String())
	}
	return u.String()
}

func (c *identity) count(what string, n int) {
	had, _ := c.seen[what].(int)
	c.seen[what] = had + n
}

func (c *identity) run(ctx context.Context) (figures, error) {
	rounds := 60 + c.Rand.IntN(40)
	for n := range rounds {
		if err := c.transact(ctx, n); err != nil {
			return nil, fmt.Errorf("transaction %d: %w", n, err)
		}
	}
	if err := c.secondLives(ctx); err != nil {
		return nil, err
	}
	if _, err := c.compensate("--interval", "100ms"); err != nil {
		return nil, err
	}
	if err := until(ctx, 2*time.Minute, "the table is empty", c.db.empty); err != nil {
		c.Breaches.Add("rows are left: %v", err)
	}
	if err := c.svc.close(ctx); err != nil {
		return nil, err
	}
	got, err := c.harvest(ctx, c.queue)
	if err != nil {
		return nil, err
	}
	c.judgeBodies(got)
	c.seen["transactions"], c.seen["ways"], c.seen["deliveries"] = rounds, c.ways, len(got)
	return c.seen, nil
}

// judgeBodies compares what arrived with the fate of every body.
func (c *identity) judgeBodies(got []amqp.Delivery) {
	for _, d := range got {
		b := c.bodies[string(d.Body)]
		if c.Breaches.Check(b != nil, "an unknown body arrived with id %s", d.MessageId) {
			b.times++
			c.Breaches.Equal("the id of "+b.what, d.MessageId, b.id)
		}
	}
	for _, b := range c.bodies {
		switch b.fate {
		case maybe:
		case never:
			c.Breaches.Check(b.times == 0, "%s of %s was delivered %d times", b.what, b.id, b.times)
			c.count("bodies rolled back or refused", 1)
		case always:
			c.Breaches.Check(b.times > 0, "%s of %s was committed and never delivered", b.what, b.id)
			c.count("bodies committed", 1)
			c.count("repeats", max(0, b.times-1))
		}
	}
}
