package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

const (
	bystandersInFlight = 500
	bystandersRounds   = 4
)

// bystandersCheck lets one message close the channel under 499 others. The
// engine knows the exchange from before, so that no look beforehand saves it.
func bystandersCheck() check {
	return check{
		name:  "bystanders",
		about: "500 in flight, one to an exchange deleted in between: only that one is charged, the rest are delivered",
		run: inWorld(worldOptions{privateBroker: true}, func(ctx context.Context, w *world) (figures, error) {
			return runBystanders(ctx, w)
		}),
	}
}

func runBystanders(ctx context.Context, w *world) (figures, error) {
	svc, err := w.service(ctx, serviceSpec{})
	if err != nil {
		return nil, err
	}
	if err := svc.ready(ctx); err != nil {
		return nil, err
	}
	// A row that was charged must stay for us to see, so it comes back late.
	if _, err := w.compensate("--interval", "200ms", "--base-delay", "1m"); err != nil {
		return nil, err
	}
	var rounds []figures
	for n := range bystandersRounds {
		b := &bystanders{world: w, svc: svc, exchange: w.name("good"), doomed: w.name("doomed"), queue: w.name("queue")}
		figs, err := b.round(ctx)
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", n+1, err)
		}
		rounds = append(rounds, figs)
	}
	return figures{"in_flight": bystandersInFlight, "rounds": rounds}, nil
}

type bystanders struct {
	*world
	svc                     *service
	exchange, doomed, queue string
	outcomes                map[string]int
}

func (b *bystanders) round(ctx context.Context) (figures, error) {
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	bad := b.Rand.IntN(bystandersInFlight)
	ids, err := b.inFlight(ctx, bad)
	if err != nil {
		return nil, err
	}
	guilty := ids[bad]
	others := slices.Delete(slices.Clone(ids), bad, bad+1)
	const calm = "only the guilty row is left, and charged"
	if err := until(ctx, time.Minute, calm, func(ctx context.Context) (bool, error) {
		rows, err := b.db.rows(ctx)
		r := rows[guilty]
		left := 0
		for _, id := range others {
			if _, ok := rows[id]; ok {
				left++
			}
		}
		return left == 0 && r.Attempts > 0, err
	}); err != nil {
		b.Breaches.Add("%v", err)
	}
	return b.look(ctx, bad, guilty, others)
}

// prepare makes both exchanges, sends through both so that the engine knows
// them, and deletes one.
func (b *bystanders) prepare(ctx context.Context) error {
	kind := []string{amqptest.Classic, amqptest.Quorum}[b.Rand.IntN(2)]
	for _, err := range []error{
		b.broker.Exchange(b.exchange, "fanout", nil),
		b.broker.Exchange(b.doomed, "fanout", nil),
		b.broker.Queue(amqptest.QueueSpec{Name: b.queue, Type: kind}),
		b.broker.Bind(b.queue, b.exchange, ""),
		b.broker.Bind(b.queue, b.doomed, ""),
	} {
		if err != nil {
			return err
		}
	}
	for _, exchange := range []string{b.exchange, b.doomed} {
		receipt, err := b.svc.pub.Publish(ctx, model.Message{Exchange: exchange})
		if err != nil {
			return err
		}
		if o, err := receipt.Wait(ctx); err != nil || o.Kind != model.Acked {
			return fmt.Errorf("first message to %s: %v, %w", exchange, o, err)
		}
	}
	return b.broker.DeleteExchange(b.doomed)
}

// inFlight publishes all while the broker is frozen, so that none is confirmed
// before the last one is on its way.
func (b *bystanders) inFlight(ctx context.Context, bad int) (ids []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	batch := make([]model.Message, bystandersInFlight)
	for i := range batch {
		exchange := b.exchange
		if i == bad {
			exchange = b.doomed
		}
		batch[i] = b.message(exchange, letters(b.Rand, b.Rand.IntN(20)), i, 512)
	}
	if err := b.node.Pause(); err != nil {
		return nil, err
	}
	receipts, err := b.svc.pub.PublishBatch(ctx, batch)
	settled := 0
	for _, r := range receipts {
		select {
		case <-r.Done():
			settled++
		default:
		}
	}
	if err := errors.Join(err, b.node.Resume()); err != nil {
		return nil, err
	}
	b.Breaches.Equal("outcomes while the broker was frozen", settled, 0)
	b.outcomes = map[string]int{}
	for _, r := range receipts {
		o, err := r.Wait(ctx)
		if err != nil {
			return nil, err
		}
		b.outcomes[o.Kind.String()+" "+string(o.Code)]++
		ids = append(ids, r.ID())
	}
	return ids, nil
}

// look compares the table, its history and the queue with what must be.
func (b *bystanders) look(ctx context.Context, bad int, guilty string, others []string) (figures, error) {
	rows, err := b.db.rows(ctx)
	if err != nil {
		return nil, err
	}
	r := rows[guilty]
	state := fmt.Sprint(r.Status, " ", r.Code, " attempts ", r.Attempts)
	b.Breaches.Equal("the guilty row", state, "READY 404 attempts 1")
	charged, err := b.db.charged(ctx)
	if err != nil {
		return nil, err
	}
	innocent := 0
	for _, id := range others {
		if slices.Contains(charged, id) || rows[id].Attempts > 0 {
			innocent++
		}
	}
	b.Breaches.Equal("bystanders charged with an attempt", innocent, 0)
	got, err := b.harvest(ctx, b.queue)
	if err != nil {
		return nil, err
	}
	n, missing := times(got), 0
	for _, id := range others {
		if n[id] == 0 {
			missing++
		}
	}
	b.Breaches.Equal("bystanders not delivered", missing, 0)
	b.Breaches.Equal("deliveries of the guilty one", n[guilty], 0)
	// The channel did go down under them, or the round proves nothing.
	hit := bystandersInFlight - b.outcomes["acked "]
	b.Breaches.AtLeast("sends that the channel took down", int64(hit), 1)
	if len(rows) > 0 {
		if err := b.db.exec(ctx, "DELETE FROM trans_message WHERE id = ?", guilty); err != nil {
			return nil, err
		}
	}
	// The first two messages of the round are not counted as repeats.
	repeats := len(got) - len(n)
	return figures{"bad_index": bad, "first_outcomes": b.outcomes, "repeats": repeats}, nil
}
