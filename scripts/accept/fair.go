package main

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

const (
	fairMany  = 200_000
	fairFew   = 10
	fairTimes = 3 // that the small service comes while the large one is drained
)

// fairCheck counts how many of the large service's messages stand before the small
// one's in a queue that both share. A round is a batch of each service.
func fairCheck() check {
	return check{
		name:  "fair",
		about: "a service with 200,000 due rows and one with 10: the 10 are sent within two rounds",
		run: onServer(worldOptions{}, func(ctx context.Context, w *world) (figures, error) {
			f := &fair{world: w, exchange: w.name("ex"), queue: w.name("main"), batch: 200 + w.Rand.IntN(800)}
			// Whether the small one's name comes first must not matter.
			f.large, f.small = "b-"+letters(w.Rand, 6), []string{"a-", "c-"}[w.Rand.IntN(2)]+letters(w.Rand, 6)
			if err := w.route(f.exchange, "fanout", "", amqptest.QueueSpec{Name: f.queue}); err != nil {
				return nil, err
			}
			return f.run(ctx)
		}),
	}
}

type fair struct {
	*world
	exchange, queue string
	large, small    string
	batch           int
	groups          []fairGroup
}

// fairGroup is one time that the small service has rows.
type fairGroup struct {
	ids    []string
	before int             // messages in the queue when they were stored
	under  map[string]bool // claimed by then, in rounds that had begun
}

func (f *fair) run(ctx context.Context) (figures, error) {
	begin := time.Now()
	if _, err := f.store(ctx, f.large, fairMany); err != nil {
		return nil, err
	}
	filled := time.Since(begin)
	ids, err := f.store(ctx, f.small, fairFew)
	if err != nil {
		return nil, err
	}
	f.groups = append(f.groups, fairGroup{ids: ids})
	all, err := f.replicas("fair", 1, "--batch", fmt.Sprint(f.batch), "--interval", "100ms")
	if err != nil {
		return nil, err
	}
	for n := range fairTimes {
		if err := f.during(ctx, all[0], n); err != nil {
			return nil, err
		}
	}
	if err := until(ctx, time.Minute, "the small service has no rows", f.none); err != nil {
		return nil, err
	}
	if err := f.stopAll(all); err != nil {
		return nil, err
	}
	left, err := f.db.count(ctx, "service = '"+f.large+"'")
	if err != nil {
		return nil, err
	}
	// Otherwise the small service's last rows met no backlog.
	f.Breaches.AtLeast("rows of the large service left", int64(left), int64(4*f.batch))
	got, err := f.harvest(ctx, f.queue)
	if err != nil {
		return nil, err
	}
	figs := figures{
		"rows_large": fairMany, "rows_small": fairFew * len(f.groups), "batch": f.batch,
		"seconds_to_store": filled.Seconds(), "large_left": left, "small_first": f.small < f.large,
	}
	f.check(got, left, figs)
	return figs, nil
}

func (f *fair) store(ctx context.Context, service string, n int) ([]string, error) {
	messages := make([]model.Message, n)
	for i := range messages {
		messages[i] = model.Message{Exchange: f.exchange, RoutingKey: "key", Body: bytesOf(f.Rand, 1+f.Rand.IntN(64))}
	}
	return f.shelve(ctx, service, messages)
}

func (f *fair) none(ctx context.Context) (bool, error) {
	n, err := f.db.count(ctx, "service = '"+f.small+"'")
	return n == 0, err
}

// during freezes the compensator at a seeded moment of its work, stores rows of the
// small service and lets it go on. While it stands still the counts are exact.
func (f *fair) during(ctx context.Context, r replica, n int) error {
	if err := until(ctx, time.Minute, "the small service's rows are gone", f.none); err != nil {
		return err
	}
	depth := 0
	at := fairMany * (n + 1) / 8 * (80 + f.Rand.IntN(20)) / 100
	if err := until(ctx, 2*time.Minute, fmt.Sprintf("%d are in the queue", at),
		func(context.Context) (enough bool, err error) {
			depth, err = f.broker.Depth(f.queue)
			return depth >= at, err
		}); err != nil {
		return err
	}
	if err := r.Pause(); err != nil {
		return err
	}
	ids, err := f.store(ctx, f.small, fairFew)
	if err != nil {
		return err
	}
	// Two equal looks: the broker has handled what it was sent before the freeze.
	last := -1
	if err := until(ctx, 10*time.Second, "the queue stands still", func(context.Context) (bool, error) {
		depth, err = f.broker.Depth(f.queue)
		still := depth == last
		last = depth
		return still, err
	}); err != nil {
		return err
	}
	claimed, err := f.db.strings(ctx, "SELECT id FROM trans_message WHERE service = ? AND version > 0", f.large)
	if err != nil {
		return err
	}
	g := fairGroup{ids: ids, before: depth, under: map[string]bool{}}
	for _, id := range claimed {
		g.under[id] = true
	}
	f.groups = append(f.groups, g)
	return r.Resume()
}

// check looks at the place of each of the small service's messages in the queue.
func (f *fair) check(got []amqp.Delivery, left int, figs figures) {
	place, n := map[string]int{}, times(got)
	for i, d := range got {
		if _, ok := place[d.MessageId]; !ok {
			place[d.MessageId] = i
		}
	}
	repeated := 0
	for _, k := range n {
		repeated += k - 1
	}
	f.Breaches.Equal("deliveries beyond the first", repeated, 0)
	f.Breaches.Equal("deliveries and rows left", len(place)+left, fairMany+fairFew*len(f.groups))
	var waits []int
	for i, g := range f.groups {
		missing, last, ahead := 0, 0, 0
		small := map[string]bool{}
		for _, id := range g.ids {
			missing += btoi(n[id] == 0)
			last, small[id] = max(last, place[id]), true
		}
		for _, d := range got[min(g.before, last):last] {
			ahead += btoi(!g.under[d.MessageId] && !small[d.MessageId])
		}
		f.Breaches.Equal(fmt.Sprintf("group %d: rows not delivered", i+1), missing, 0)
		// A batch of the round that had begun, and one of the next.
		f.Breaches.AtMost(fmt.Sprintf("group %d: messages of the large service claimed before the last one", i+1),
			int64(ahead), int64(2*f.batch))
		waits = append(waits, ahead)
	}
	figs["claimed_before"] = waits
}
