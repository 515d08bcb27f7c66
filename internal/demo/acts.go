package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

// workers publish at a time, as the requests of a service would.
const workers = 32

// publishing is the happy path: three quarters of the messages, two of them in
// transactions of which some are rolled back.
func (d *demo) publishing(ctx context.Context) error {
	d.say("1. PUBLISH: store a READY row, send it with confirm and mandatory, delete the row on the broker's ack")
	if err := d.oneSlowly(ctx); err != nil {
		return err
	}
	inTx := d.cfg.Messages / 2
	outside := d.cfg.Messages/4 - 1
	begin := time.Now()
	if err := d.transactions(ctx, inTx); err != nil {
		return err
	}
	d.say("  %d in transactions with a business row: %d committed, %d rolled back (%.1f s)",
		inTx, d.transacted, len(d.rolledBack), time.Since(begin).Seconds())
	begin = time.Now()
	receipts, err := d.publishMany(ctx, d.messagesTo(keyPaid, outside), nil)
	if err != nil {
		return err
	}
	kinds, err := outcomes(ctx, receipts)
	if err != nil {
		return err
	}
	d.say("  %d outside: %d acked (%.1f s)", outside, kinds[model.Acked], time.Since(begin).Seconds())
	if err := d.emptied(ctx); err != nil {
		return err
	}
	d.say("  the consumer has %d, the table has 0 rows left\n", d.broker.has(d.published))
	return nil
}

// oneSlowly shows the stages of one message.
func (d *demo) oneSlowly(ctx context.Context) error {
	m := d.message(keyPaid)
	begin := time.Now()
	r, err := d.pub.Publish(ctx, m)
	if err != nil {
		return err
	}
	d.published[m.ID] = true
	stored := time.Since(begin)
	o, err := r.Wait(ctx)
	if err != nil {
		return err
	}
	d.say("  one message: stored as a READY row after %.1f ms, %s after %.1f ms, row deleted",
		milliseconds(stored), o, milliseconds(time.Since(begin)))
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

var errRolledBack = errors.New("the order was refused")

// transactions runs n business transactions, each with one message; about one in ten is
// rolled back, and its message with it.
func (d *demo) transactions(ctx context.Context, n int) error {
	for range n {
		m := d.message(keyPaid)
		refuse := d.random.IntN(10) == 0
		total := d.random.IntN(1000)
		order := func(ctx context.Context, tx *sql.Tx, out *publisher.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO orders (message_id, total) VALUES (?, ?)", m.ID, total)
			if err != nil {
				return err
			}
			if err := out.Publish(ctx, m); err != nil {
				return err
			}
			if refuse {
				return errRolledBack
			}
			return nil
		}
		err := publisher.InTx(ctx, d.pub, d.business, nil, order)
		switch {
		case errors.Is(err, errRolledBack):
			d.rolledBack[m.ID] = true
		case err != nil:
			return fmt.Errorf("transaction: %w", err)
		default:
			d.published[m.ID] = true
			d.transacted++
		}
	}
	return nil
}

// messagesTo makes n messages before they are published by many at a time.
func (d *demo) messagesTo(key string, n int) []model.Message {
	ms := make([]model.Message, n)
	for i := range ms {
		ms[i] = d.message(key)
		ms[i].Key = fmt.Sprintf("%s-%d", key, i)
	}
	return ms
}

// publishMany publishes from many goroutines. after, if set, is called with the number of
// messages stored so far, by one goroutine at a time.
func (d *demo) publishMany(
	ctx context.Context, ms []model.Message, after func(stored int),
) ([]*publisher.Receipt, error) {
	receipts := make([]*publisher.Receipt, len(ms))
	stored := make(chan int)
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	var counter errgroup.Group
	counter.Go(func() error {
		n := 0
		for range stored {
			n++
			if after != nil {
				after(n)
			}
		}
		return nil
	})
	for i := range ms {
		group.Go(func() error {
			r, err := d.pub.Publish(gctx, ms[i])
			if err != nil {
				return err
			}
			receipts[i] = r
			stored <- i
			return nil
		})
	}
	err := group.Wait()
	close(stored)
	_ = counter.Wait() // it returns nil
	for i, r := range receipts {
		if r != nil {
			d.published[ms[i].ID] = true
		}
	}
	return receipts, err
}

// outcomes waits for the first sends and counts them by kind.
func outcomes(ctx context.Context, receipts []*publisher.Receipt) (map[model.OutcomeKind]int, error) {
	kinds := map[model.OutcomeKind]int{}
	for _, r := range receipts {
		o, err := r.Wait(ctx)
		if err != nil {
			return nil, err
		}
		kinds[o.Kind]++
	}
	return kinds, nil
}

// unroutable sends to a key that nobody bound, shows the rows, binds and compensates.
func (d *demo) unroutable(ctx context.Context) error {
	d.say("2. RETURNED: %d messages to the key %s, which no queue is bound to", unboundMessages, keyInvoice)
	ms := d.messagesTo(keyInvoice, unboundMessages)
	d.unboundIDs = map[string]bool{}
	for _, m := range ms {
		d.unboundIDs[m.ID] = true
	}
	receipts, err := d.publishMany(ctx, ms, nil)
	if err != nil {
		return err
	}
	kinds, err := outcomes(ctx, receipts)
	if err != nil {
		return err
	}
	filter := model.Filter{Service: service, Status: model.Ready, Code: model.CodeNoRoute}
	err = d.until(ctx, "the returned messages to be READY with 312", func() (bool, error) {
		rows, err := d.store.List(ctx, filter)
		return len(rows) == unboundMessages, err
	})
	if err != nil {
		return err
	}
	d.say("  the broker acked and returned %d of them: READY again, with the cause 312", kinds[model.Returned])
	if err := d.showRows(ctx, filter, unboundMessages); err != nil {
		return err
	}
	if got := d.broker.has(d.unboundIDs); got != 0 {
		return fmt.Errorf("%d unroutable messages arrived before the key was bound", got)
	}
	d.say("  now the key is bound and a compensator started; it claims what is due and sends it again")
	if err := d.broker.bind(keyInvoice); err != nil {
		return err
	}
	if err := d.startCompensator(ctx); err != nil {
		return err
	}
	if err := d.emptied(ctx); err != nil {
		return err
	}
	d.say("  delivered: %d of %d; the table has 0 rows left\n", d.broker.has(d.unboundIDs), unboundMessages)
	return nil
}

// cutting breaks the publisher's connection in the middle of a burst, after the broker has
// got messages and before their confirms arrive.
func (d *demo) cutting(ctx context.Context) error {
	n := d.cfg.Messages / 4
	d.say("3. CUT: the connection breaks in the middle of a burst of %d", n)
	var before int64
	receipts, err := d.publishMany(ctx, d.messagesTo(keyPaid, n), func(stored int) {
		switch stored {
		case n / 3:
			d.relay.holdAnswers()
			before = d.relay.sent.Load()
		case 2 * n / 3:
			// More than a heartbeat went to the broker since: sends whose confirms are held. When
			// nothing comes the cut proves nothing, and the verdict says so.
			_ = d.until(ctx, "sends without an answer", func() (bool, error) {
				return d.relay.sent.Load() > before+200, nil
			})
			d.relay.cut()
		}
	})
	if err != nil {
		return err
	}
	kinds, err := outcomes(ctx, receipts)
	if err != nil {
		return err
	}
	d.unknown = kinds[model.Unknown]
	d.repaired = n - kinds[model.Acked]
	d.say("  Publish never failed. First sends: %d acked, %d unknown (sent, no answer), %d deferred (stored, not sent)",
		kinds[model.Acked], kinds[model.Unknown], kinds[model.Deferred])
	begin := time.Now()
	if err := d.emptied(ctx); err != nil {
		return err
	}
	d.say("  %.1f s later all %d have arrived: the unknown and deferred ones were sent again with the same ids\n",
		time.Since(begin).Seconds(), n)
	return nil
}

// dying lets a few messages run out of attempts.
func (d *demo) dying(ctx context.Context) error {
	d.say("4. DEAD: %d messages to a key that stays unbound, %d attempts with growing delays",
		deadMessages, policy.MaxAttempts)
	ms := d.messagesTo(keyNowhere, deadMessages)
	if _, err := d.publishMany(ctx, ms, nil); err != nil {
		return err
	}
	err := d.until(ctx, "the messages to be DEAD and reported", func() (bool, error) {
		_, dead, err := d.rows(ctx)
		return dead == deadMessages && d.alerts() == deadMessages, err
	})
	if err != nil {
		return err
	}
	d.say("  they are kept for repair:")
	return d.showRows(ctx, model.Filter{Service: service, Status: model.Dead}, deadMessages)
}
