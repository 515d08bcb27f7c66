package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/transmsg/transmsg/internal/faultproxy"
)

// How the first row of an id goes, while what its sender has still to write is late.
const (
	goneDiscarded = "discarded, then the first ack"
	goneDelivered = "delivered by a compensator, then the first ack"
	goneRepeated  = "deleted, answer lost, then the DELETE again"
)

// lifeTries bounds how often a late ack is tried: a connection on which nothing is read
// for some seconds is given up, and its acks with it.
const lifeTries = 5

// secondLives gives ids a second row with other content, and then lets through what was
// held back of the first: the second rows must be there afterwards.
func (c *identity) secondLives(ctx context.Context) error {
	ends := []string{goneDiscarded, goneDelivered}
	if c.Store != "sqlite" { // it has no wire whose answer could be lost
		ends = append(ends, goneRepeated, goneRepeated)
	}
	ends = append(ends, ends[c.Rand.IntN(len(ends))])
	c.Rand.Shuffle(len(ends), func(i, j int) { ends[i], ends[j] = ends[j], ends[i] })
	for _, how := range ends {
		if how == goneRepeated {
			if err := c.deleteAgain(ctx); err != nil {
				return fmt.Errorf("%s: %w", how, err)
			}
			continue
		}
		for try := 1; ; try++ {
			late, err := c.lateAcks(ctx, how)
			if err != nil {
				return fmt.Errorf("%s: %w", how, err)
			}
			if late {
				break
			}
			if try == lifeTries {
				return fmt.Errorf("%s: no ack came late in %d tries", how, try)
			}
			c.count("late acks that never came", 1)
		}
	}
	return nil
}

// first publishes n new ids, which a service stores and sends.
func (c *identity) first(ctx context.Context, svc *service, n int, f expected) (ids []string, err error) {
	for range n {
		m, b := c.content(c.newID(), "a first life")
		b.fate = f
		if _, err := svc.pub.Publish(ctx, m); err != nil {
			return nil, err
		}
		ids = append(ids, m.ID)
	}
	return ids, nil
}

// warm sends one message: the exchange is known to the sender then, and the statements to the
// connection that is used again.
func (c *identity) warm(ctx context.Context, svc *service) error {
	if err := svc.ready(ctx); err != nil {
		return err
	}
	ids, err := c.first(ctx, svc, 1, always)
	if err != nil {
		return err
	}
	return until(ctx, 30*time.Second, "a first row is deleted", c.stored(ids, "1 = 1", 0))
}

// again stores the ids with other content, by the service whose broker is away.
func (c *identity) again(ctx context.Context, ids []string) error {
	for _, id := range ids {
		m, b := c.content(id, "a second life")
		b.fate = always
		if _, err := c.rival.pub.Publish(ctx, m); err != nil {
			return fmt.Errorf("store %s anew: %w", id, err)
		}
	}
	c.count("second lives", len(ids))
	return nil
}

// stored is for until: so many of the ids have a row for which the condition holds.
func (c *identity) stored(ids []string, where string, want int) func(context.Context) (bool, error) {
	in := "id IN ('" + strings.Join(ids, "','") + "') AND " + where
	return func(ctx context.Context) (bool, error) {
		n, err := c.db.count(ctx, in)
		return n == want, err
	}
}

// kept wants all second rows in the table: nobody but the first life's sender has written since.
func (c *identity) kept(ctx context.Context, ids []string, how string) error {
	n, err := c.db.count(ctx, "service = 'rival' AND id IN ('"+strings.Join(ids, "','")+"')")
	c.Breaches.Equal("second rows after: "+how, n, len(ids))
	return err
}

// lateAcks holds acks back for longer than the confirm timeout. It says whether they came
// late in the end.
func (c *identity) lateAcks(ctx context.Context, how string) (late bool, err error) {
	proxy, through, err := proxiedURL(c.url)
	if err != nil {
		return false, err
	}
	c.later(proxy.Close)
	svc, err := c.service(ctx, serviceSpec{AMQP: through, ConfirmTimeout: 300 * time.Millisecond})
	if err != nil {
		return false, err
	}
	if err := c.warm(ctx, svc); err != nil {
		return false, err
	}
	n, f := 1+c.Rand.IntN(6), maybe
	if how == goneDelivered {
		f = always
	}
	proxy.Stall(faultproxy.ToClient)
	ids, err := c.first(ctx, svc, n, f)
	if err != nil {
		return false, err
	}
	if err := c.endFirst(ctx, how, ids); err != nil {
		return false, err
	}
	if err := c.again(ctx, ids); err != nil {
		return false, err
	}
	proxy.Resume()
	acks := func() int { return int(svc.sender.Stats().LateAcks) }
	err = until(ctx, 10*time.Second, "the acks come late", func(context.Context) (bool, error) {
		return acks() == n || svc.sender.Stats().InFlight == 0, nil
	})
	if err != nil && ctx.Err() != nil {
		return false, err
	}
	late = acks() > 0
	if err := svc.close(ctx); err != nil { // what it has still to write is written
		return false, err
	}
	c.count("late acks", acks())
	return late, c.kept(ctx, ids, how)
}

// endFirst ends the first lives once their sender has given up waiting.
func (c *identity) endFirst(ctx context.Context, how string, ids []string) error {
	if err := until(ctx, 30*time.Second, "the confirms time out", c.stored(ids, "version > 0", len(ids))); err != nil {
		return err
	}
	if how == goneDiscarded {
		args := append([]string{"messages", "discard"}, ids...)
		if err := c.transmsg(ctx, append(args, "--status", "READY", "--reason", "sent by hand", "--yes",
			"--store", c.dsn)...); err != nil {
			return err
		}
		return until(ctx, time.Second, "the rows are discarded", c.stored(ids, "1 = 1", 0))
	}
	d, err := c.compensate("--interval", "50ms")
	if err != nil {
		return err
	}
	return errors.Join(until(ctx, 30*time.Second, "a compensator has delivered the rows",
		c.stored(ids, "1 = 1", 0)), d.stop())
}

// deleteAgain lets the server do a DELETE whose answer is lost, and lets the service repeat it
// after the id was stored anew.
func (c *identity) deleteAgain(ctx context.Context) error {
	broker, through, err := proxiedURL(c.url)
	if err != nil {
		return err
	}
	c.later(broker.Close)
	database, dsn, err := proxied(c.Store, c.dsn)
	if err != nil {
		return err
	}
	c.later(database.Close)
	svc, err := openService(ctx, serviceSpec{DSN: dsn, AMQP: through})
	if err != nil {
		return err
	}
	c.later(func() error { return svc.close(context.WithoutCancel(ctx)) })
	if err := c.warm(ctx, svc); err != nil {
		return err
	}
	broker.Stall(faultproxy.ToClient)
	ids, err := c.first(ctx, svc, 1, always)
	if err != nil {
		return err
	}
	database.Stall(faultproxy.ToClient)
	broker.Resume()
	if err := until(ctx, 30*time.Second, "the row is deleted", c.stored(ids, "1 = 1", 0)); err != nil {
		return err
	}
	if err := c.again(ctx, ids); err != nil {
		return err
	}
	if cut := database.Cut(true); cut == 0 {
		return errors.New("the DELETE had its answer")
	}
	database.Resume()
	if err := svc.close(ctx); err != nil {
		return err
	}
	c.count("deletes repeated", 1)
	return c.kept(ctx, ids, goneRepeated)
}
