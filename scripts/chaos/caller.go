package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/transmsg/transmsg/model"
)

// caller is one goroutine that calls the library, one call after the other.
type caller struct {
	*publishing
	rng *rand.Rand
}

// firstLease is the lease of a new row in a run. An id whose fate is unknown is published
// again only while its row, if there is one, cannot have been sent by a compensator and
// deleted: after that it would be a second message.
const firstLease = confirmTimeout + model.LeaseMargin + sendBudget

// act does one call of a random kind. An error means that the ledger cannot be kept.
func (c *caller) act(ctx context.Context) error {
	kinds := []struct {
		weight int
		do     func(context.Context) error
	}{
		{50, c.publish},
		{15, c.publishBatch},
		{4, c.publishLater},
		{3, c.publishInvalid},
		{20, c.commit},
		{5, c.rollBack},
		{3, c.forget},
	}
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	n := c.rng.IntN(total)
	for _, k := range kinds {
		if n -= k.weight; n < 0 {
			return k.do(ctx)
		}
	}
	return nil
}

// draw makes up to n messages; it waits for their share of the rate.
func (c *caller) draw(ctx context.Context, most int) []intent {
	n := 1 + c.rng.IntN(most)
	if c.pace.WaitN(ctx, n) != nil {
		return nil
	}
	is := make([]intent, n)
	for i := range is {
		r := drawRoute(c.rng)
		id := uuid.Must(uuid.NewV7()).String()
		is[i] = intent{route: r, msg: model.Message{
			ID: id, Key: r.name, Exchange: r.exchange, RoutingKey: r.key, Body: bodyOf(id),
		}}
	}
	return is
}

// deadline is short for one caller in ten: its context ends in the middle of something.
func (c *caller) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	d := 5 * time.Second
	if c.rng.IntN(10) == 0 {
		d = time.Duration(20+c.rng.IntN(500)) * time.Millisecond
	}
	// A service that is told to stop lets the call in progress end.
	return context.WithTimeout(context.WithoutCancel(ctx), d)
}

// call writes the intent, makes the call and writes what it returned.
func (c *caller) call(ctx context.Context, is []intent, do func(context.Context) (verdict, error)) (verdict, error) {
	number, err := c.ledger.intend(is)
	if err != nil {
		return "", err
	}
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	v, told := do(ctx)
	why := "-"
	if told != nil {
		why = told.Error()
	}
	if v != verdictOK && why != whyIntended {
		defer c.rest(ctx)
	}
	return v, c.ledger.result(number, v, why)
}

// rest keeps a caller from spinning on an error.
func (c *caller) rest(ctx context.Context) {
	t := time.NewTimer(time.Duration(20+c.rng.IntN(80)) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// judge says what an error of Publish makes certain.
func judge(err error) verdict {
	switch {
	case err == nil:
		return verdictOK
	case errors.Is(err, model.ErrInvalid), errors.Is(err, model.ErrNotStored), errors.Is(err, model.ErrClosed):
		return verdictNo
	default:
		return verdictMaybe
	}
}

func (c *caller) publish(ctx context.Context) error {
	return c.publishThese(ctx, c.draw(ctx, 1))
}

func (c *caller) publishLater(ctx context.Context) error {
	is := c.draw(ctx, 1)
	for i := range is {
		is[i].msg.NotBefore = time.Now().Add(time.Duration(c.rng.IntN(3000)) * time.Millisecond)
	}
	return c.publishThese(ctx, is)
}

func (c *caller) publishBatch(ctx context.Context) error {
	return c.publishThese(ctx, c.draw(ctx, 8))
}

// publishThese publishes, and where the result is unknown publishes the same again, as the
// documentation says.
func (c *caller) publishThese(ctx context.Context, is []intent) error {
	if len(is) == 0 {
		return nil
	}
	since := time.Now()
	for {
		v, err := c.call(ctx, is, func(ctx context.Context) (verdict, error) {
			var err error
			if len(is) == 1 {
				_, err = c.pub.Publish(ctx, is[0].msg)
			} else {
				_, err = c.pub.PublishBatch(ctx, messagesOf(is))
			}
			return judge(err), err
		})
		// Half of the lease: the next call may take up to its deadline.
		if err != nil || v != verdictMaybe || time.Since(since) > firstLease/2-time.Second || ctx.Err() != nil {
			return err
		}
	}
}

// publishInvalid hands in one that no broker would take, alone or among good ones.
func (c *caller) publishInvalid(ctx context.Context) error {
	is := c.draw(ctx, 4)
	if len(is) == 0 {
		return nil
	}
	is[c.rng.IntN(len(is))].msg.RoutingKey = strings.Repeat("x", 256)
	_, err := c.call(ctx, is, func(ctx context.Context) (verdict, error) {
		_, err := c.pub.PublishBatch(ctx, messagesOf(is))
		if errors.Is(err, model.ErrInvalid) {
			return verdictNo, errors.New(whyIntended)
		}
		return judge(err), err
	})
	return err
}
