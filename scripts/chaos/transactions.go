package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

var errIntended = errors.New(whyIntended)

// commit stores messages together with business of the service's own.
func (c *caller) commit(ctx context.Context) error { return c.transaction(ctx, nil) }

// rollBack changes its mind at the end.
func (c *caller) rollBack(ctx context.Context) error { return c.transaction(ctx, errIntended) }

// transaction runs one transaction by the library's wrapper. end is what the function
// returns when all else went well.
func (c *caller) transaction(ctx context.Context, end error) error {
	is := c.draw(ctx, 3)
	if len(is) == 0 {
		return nil
	}
	_, err := c.call(ctx, is, func(ctx context.Context) (verdict, error) {
		committing := false
		err := publisher.InTx(ctx, c.pub, c.db, nil, func(ctx context.Context, tx *sql.Tx, out *publisher.Tx) error {
			if err := c.business(ctx, tx, out, is); err != nil {
				return err
			}
			committing = end == nil
			return end
		})
		switch {
		case err == nil:
			return verdictOK, nil
		case !committing, errors.Is(err, model.ErrRowsMissing):
			return verdictNo, err
		default:
			return verdictMaybe, err
		}
	})
	return err
}

// forget commits by hand and does not tell the library: a compensator sends the rows.
func (c *caller) forget(ctx context.Context) error {
	is := c.draw(ctx, 2)
	if len(is) == 0 {
		return nil
	}
	_, err := c.call(ctx, is, func(ctx context.Context) (verdict, error) {
		tx, err := c.db.BeginTx(ctx, nil)
		if err != nil {
			return verdictNo, err
		}
		if err := c.pub.Tx(tx).Publish(ctx, messagesOf(is)...); err != nil {
			// An error of the roll-back means that the connection is gone, and the transaction with it.
			_ = tx.Rollback()
			return verdictNo, err
		}
		if err := tx.Commit(); err != nil {
			return verdictMaybe, err
		}
		return verdictOK, nil
	})
	return err
}

// business updates two counters around the messages, in order of their ids. In a deadlock
// storm it takes them in any order out of few, and sometimes swallows what the database
// says about that: the transaction is then gone while the caller believes in it.
func (c *caller) business(ctx context.Context, tx *sql.Tx, out *publisher.Tx, is []intent) error {
	first, second := 1+c.rng.IntN(counters), 1+c.rng.IntN(counters)
	storm := c.orders.get().Storm
	if storm {
		first, second = 1+c.rng.IntN(3), 1+c.rng.IntN(3)
	} else if first > second {
		first, second = second, first
	}
	swallow := storm && c.rng.IntN(3) == 0
	before := c.rng.IntN(2) == 0
	for _, step := range []func() error{
		func() error { return bump(ctx, tx, first) },
		func() error {
			if storm {
				c.rest(ctx) // holds what it has locked
			}
			return publishIf(before, ctx, out, is)
		},
		func() error {
			err := bump(ctx, tx, second)
			if swallow {
				return nil
			}
			return err
		},
		func() error { return publishIf(!before, ctx, out, is) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func publishIf(now bool, ctx context.Context, out *publisher.Tx, is []intent) error { //nolint:revive // reads as an if
	if !now {
		return nil
	}
	return out.Publish(ctx, messagesOf(is)...)
}
