package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// sessionsCheck publishes through connections and handles of the seed's choosing. A process whose
// broker is away stores the messages and a compensator sends them, so that what arrives has been
// through the row.
func sessionsCheck() check {
	return check{
		name: "sessions",
		about: "callers' sessions of any character set and mode, handles of any kind: texts arrive byte for byte, " +
			"or are refused in words",
		stores: "all",
		run: inWorld(worldOptions{}, func(ctx context.Context, w *world) (figures, error) {
			c := &sessions{world: w, queue: "sessions", want: map[string]model.Message{}}
			if err := c.prepare(ctx); err != nil {
				return nil, err
			}
			return c.run(ctx)
		}),
	}
}

type sessions struct {
	*world
	queue     string
	exchanges []string
	away      *service
	want      map[string]model.Message // by id, what was committed
	undone    int
	refused   int
}

func (c *sessions) prepare(ctx context.Context) error {
	if err := c.broker.Queue(amqptest.QueueSpec{Name: c.queue}); err != nil {
		return err
	}
	for i, n := range []string{"plain", "größe €", "訂單 🚀", `back\'slash"`} {
		name := fmt.Sprintf("%s %d %s", n, i, letters(c.Rand, 5))
		if err := c.broker.Exchange(name, "fanout", nil); err != nil {
			return err
		}
		if err := c.broker.Bind(c.queue, name, ""); err != nil {
			return err
		}
		c.exchanges = append(c.exchanges, name)
	}
	proxy, away, err := proxiedURL(c.url)
	if err != nil {
		return err
	}
	c.later(proxy.Close)
	proxy.Refuse(true)
	c.away, err = c.service(ctx, serviceSpec{AMQP: away})
	return err
}

func (c *sessions) run(ctx context.Context) (figures, error) {
	rounds := 60 + c.Rand.IntN(60)
	for n := range rounds {
		if err := c.round(ctx, n); err != nil {
			return nil, fmt.Errorf("round %d: %w", n, err)
		}
	}
	if err := c.pools(); err != nil {
		return nil, err
	}
	if err := c.away.close(ctx); err != nil {
		return nil, err
	}
	if _, err := c.compensate("--interval", "100ms"); err != nil {
		return nil, err
	}
	if err := until(ctx, 2*time.Minute, "the table is empty", c.db.empty); err != nil {
		c.Breaches.Add("rows are left: %v", err)
	}
	got, err := c.harvest(ctx, c.queue)
	if err != nil {
		return nil, err
	}
	c.judge(got)
	return figures{
		"rounds": rounds, "committed": len(c.want), "rolled back": c.undone, "refused": c.refused,
	}, nil
}

// hostile are texts that are valid and that a narrow character set, an escape or a pad would change.
func (c *sessions) hostile() string {
	texts := []string{
		"größe", "k.ж.#", "🚀🚀", `\'"; --`, "ÿ\u00a0", "a\u0301", "٠١", "schlüssel €", "plain", " pad ", "%s?$1",
	}
	return texts[c.Rand.IntN(len(texts))] + letters(c.Rand, 3)
}

func (c *sessions) round(ctx context.Context, n int) error {
	db, err := c.callersPool(ctx)
	if err != nil {
		return err
	}
	raw, err := db.DB()
	if err != nil {
		return err
	}
	defer raw.Close()
	kinds := handleKinds(c.Store)
	kind := kinds[c.Rand.IntN(len(kinds))]
	h, err := kind.open(ctx, db)
	if err != nil {
		return fmt.Errorf("%s: %w", kind.name, err)
	}
	m := c.message(c.exchanges[c.Rand.IntN(len(c.exchanges))], c.hostile(), n, 4096)
	m.ID, m.Key, m.Properties.Type = model.NewID(), c.hostile(), c.hostile()
	out := c.away.pub.Tx(h.x)
	err = out.Publish(ctx, m)
	switch {
	case !kind.transaction:
		c.refused++
		c.Breaches.Check(err != nil && strings.Contains(err.Error(), "no transaction"),
			"%s: publish: %v, want refused", kind.name, err)
		return h.undo()
	case err != nil:
		c.Breaches.Add("%s: publish: %v", kind.name, err)
		return h.undo()
	case c.Rand.IntN(4) == 0:
		c.undone++
		return h.undo()
	}
	if _, err := out.Commit(ctx, h.commit); err != nil {
		c.Breaches.Add("%s: commit: %v", kind.name, err)
		return nil
	}
	c.want[m.ID] = m
	return nil
}

// pools gives New pools whose reads would be altered.
func (c *sessions) pools() error {
	for param, word := range sessionParams(c.Store) {
		db, err := openGorm(c.Store, c.dsn+param)
		if err != nil {
			return err
		}
		s, err := gormstore.Open(context.Background(), anystore.Gorm(db), gormstore.Options{})
		if err == nil {
			err = s.Close()
		}
		if c.Breaches.Check(err != nil && strings.Contains(err.Error(), word),
			"pool with %s: %v, want %s named", param, err, word) {
			c.refused++
		}
		raw, err := db.DB()
		if err != nil {
			return err
		}
		if err := raw.Close(); err != nil {
			return err
		}
	}
	return nil
}

// judge compares what arrived with what was committed.
func (c *sessions) judge(got []amqp.Delivery) {
	arrived := map[string]bool{}
	for _, d := range got {
		m, ok := c.want[d.MessageId]
		if !c.Breaches.Check(ok, "%s arrived and was never committed", d.MessageId) {
			continue
		}
		arrived[d.MessageId] = true
		c.Breaches.Equal("exchange", d.Exchange, m.Exchange)
		c.Breaches.Equal("routing key", d.RoutingKey, m.RoutingKey)
		c.Breaches.Equal("type", d.Type, m.Properties.Type)
		c.Breaches.Equal("body of "+d.MessageId, string(d.Body), string(m.Body))
	}
	c.Breaches.Equal("messages that arrived", len(arrived), len(c.want))
}
