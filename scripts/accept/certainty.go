package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/transmsg/transmsg/model"
)

// certaintyCheck puts a proxy before the database that passes statements on and lies about them,
// or cuts the connection, and compares what each caller was told with what the table has.
func certaintyCheck() check {
	return check{
		name:  "certainty",
		about: "a proxy lies about or cuts INSERT, COMMIT and reads: stored, not stored and missing are true",
		run: onServer(worldOptions{}, func(ctx context.Context, w *world) (figures, error) {
			h := &handlers{world: w, exchange: w.name("ex"), key: w.name("key")}
			c := &certainty{handlers: h, told: map[string]int{}}
			if err := c.prepare(ctx); err != nil {
				return nil, err
			}
			return c.run(ctx)
		}),
	}
}

type certainty struct {
	*handlers
	liar *liar
	told map[string]int // answers by kind
	lies int
}

// What a call may be told.
const (
	toldStored  = "stored"
	toldNot     = "not stored"
	toldMissing = "missing"
	toldUnknown = "unknown"
)

// lostAnswers are codes by which servers and proxies speak of a connection or of themselves, and so
// say nothing about the statement.
var lostAnswers = map[string][]string{
	"mysql": {
		"\x1d\x04", "\x51\x04", "\x9c\x04", "\x25\x05", "\x87\x07", // 1053 1105 1180 1317 1927
		"\xd3\x07", "\xd6\x07", "\xdd\x07", "\x29\x23", "\x10\x04", // 2003 2006 2013 9001 1040
		"\x86\x04", "\x87\x04", "\x88\x04", "\x89\x04", // 1158 1159 1160 1161
	},
	"postgres": {
		"08000", "08003", "08006", "08P01", "57014", "57P01", "57P02", "57P03", "53300", "53400", "58000", "58030",
		"XX000",
	},
}

// prepare opens service and callers' pools behind the liar; the broker is away, so that rows stay.
func (c *certainty) prepare(ctx context.Context) error {
	through, err := c.behindLiar()
	if err != nil {
		return err
	}
	proxy, away, err := proxiedURL(c.url)
	if err != nil {
		return err
	}
	c.later(proxy.Close)
	proxy.Refuse(true)
	if c.sql, err = openTable(c.Store, through); err != nil {
		return err
	}
	c.later(c.sql.db.Close)
	if c.gorm, err = openGorm(c.Store, through); err != nil {
		return err
	}
	pool, err := c.gorm.DB()
	if err != nil {
		return err
	}
	c.later(pool.Close)
	c.svc, err = openService(ctx, serviceSpec{DSN: through, AMQP: away})
	return err
}

func (c *certainty) behindLiar() (dsn string, err error) {
	if c.Store == "postgres" {
		u, err := url.Parse(c.dsn)
		if err != nil {
			return "", err
		}
		if c.liar, err = newLiar(true, u.Host); err != nil {
			return "", err
		}
		c.later(c.liar.close)
		u.Host = c.liar.addr()
		return u.String(), nil
	}
	config, err := mysql.ParseDSN(c.dsn)
	if err != nil {
		return "", err
	}
	if c.liar, err = newLiar(false, config.Addr); err != nil {
		return "", err
	}
	c.later(c.liar.close)
	config.Addr = c.liar.addr()
	return config.FormatDSN(), nil
}

func (c *certainty) run(ctx context.Context) (figures, error) {
	rounds := 150 + c.Rand.IntN(50)
	for n := range rounds {
		if err := c.round(ctx); err != nil {
			return nil, fmt.Errorf("round %d: %w", n, err)
		}
	}
	if err := c.svc.close(ctx); err != nil {
		return nil, err
	}
	c.Breaches.AtLeast("lies told", int64(c.lies), int64(rounds/4))
	return figures{"rounds": rounds, "lies": c.lies, "answers": c.told}, nil
}

// draw chooses the lie of a round, or none.
func (c *certainty) draw() *lie {
	if c.Rand.IntN(5) == 0 {
		return nil
	}
	l := &lie{At: []string{"INSERT", "INSERT", "COMMIT", "SELECT"}[c.Rand.IntN(4)]}
	codes := lostAnswers[c.Store]
	// MySQL's answer to a SELECT cannot be replaced half-way.
	if c.Rand.IntN(3) > 0 && (c.Store == "postgres" || l.At != "SELECT") {
		l.Code = codes[c.Rand.IntN(len(codes))]
	}
	l.Before = c.Store == "mysql" && c.Rand.IntN(2) == 0
	return l
}

// round makes one call under one lie and compares.
func (c *certainty) round(ctx context.Context) error {
	ms := make([]model.Message, 1+c.Rand.IntN(4))
	for i := range ms {
		ms[i] = c.message(c.exchange, c.key, i, 2048)
		ms[i].ID = model.NewID()
	}
	way := append(c.ways(), "Publish", "PublishBatch")[c.Rand.IntN(6)]
	if way == "Publish" {
		ms = ms[:1]
	}
	l := c.draw()
	c.liar.arm(l)
	within, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err := c.call(within, way, ms)
	struck := c.liar.arm(nil)
	if struck {
		c.lies++
	}
	stored, countErr := c.stored(ctx, ms)
	if countErr != nil {
		return countErr
	}
	c.judge(fmt.Sprintf("%s under %v", way, l), err, stored, len(ms), struck && !isDirect(way), l)
	return nil
}

func isDirect(way string) bool { return strings.HasPrefix(way, "Publish") }

func (c *certainty) call(ctx context.Context, way string, ms []model.Message) (err error) {
	switch way {
	case "Publish":
		_, err = c.svc.pub.Publish(ctx, ms[0])
	case "PublishBatch":
		_, err = c.svc.pub.PublishBatch(ctx, ms)
	default:
		err = c.transaction(ctx, way, func(ctx context.Context, tx handlerTx) error {
			return tx.out.Publish(ctx, ms...)
		})
	}
	return err
}

// stored counts the rows by a connection that nobody lies to.
func (c *certainty) stored(ctx context.Context, ms []model.Message) (int, error) {
	ids := make([]string, len(ms))
	for i, m := range ms {
		ids[i] = m.ID
	}
	return c.db.count(ctx, "id IN ('"+strings.Join(ids, "','")+"')")
}

// judge compares one answer with the table. Unknown is allowed only where the end of a caller's
// transaction was hit, which is not the library's to repeat: elsewhere there was time to find out.
func (c *certainty) judge(what string, err error, stored, all int, inTx bool, l *lie) {
	answer := toldNot
	switch {
	case err == nil:
		answer = toldStored
		c.Breaches.Check(stored == all, "%s: told stored, and %d of %d rows are there", what, stored, all)
	case errors.Is(err, model.ErrStoreUnknown):
		answer = toldUnknown
		c.Breaches.Check(inTx && l.At == "COMMIT", "%s: unknown, though there was time to find out: %v", what, err)
	case errors.Is(err, model.ErrRowsMissing):
		answer = toldMissing
		fallthrough
	default:
		c.Breaches.Check(stored == 0, "%s: told %s, and %d of %d rows are there: %v", what, answer, stored, all, err)
	}
	c.told[answer]++
}
