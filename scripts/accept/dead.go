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
	deadRows = 1000
	deadGood = 3000
	deadRate = 600 // of the compensator: what bounds the good messages' throughput
)

// deadCheck lets messages die in three ways while the receiver of alerts misbehaves,
// and repairs them by the operators' verbs.
func deadCheck() check {
	return check{
		name: "dead",
		about: "1,000 rows DEAD in three causes, a webhook that hangs, fails and works, kill -9: three alerts; " +
			"groups agree, two replays send once, an edit holds against a late ack",
		run: onServer(worldOptions{}, func(ctx context.Context, w *world) (figures, error) {
			d := &dead{
				world: w, exchange: w.name("ex"), queue: w.name("main"), full: w.name("full"),
				groups: map[string]*deadGroup{}, figs: figures{},
			}
			for _, part := range []func(context.Context) error{
				d.prepare, d.baseline, d.die, d.killed, d.alerted, d.grouped, d.replayed, d.corrected, d.lateAck,
			} {
				if err := part(ctx); err != nil {
					return d.figs, err
				}
			}
			return d.figs, nil
		}),
	}
}

type dead struct {
	*world
	exchange, queue, full string
	hook                  *webhook
	now                   replica // the compensator
	starts                int
	base                  time.Duration // that good messages took with nothing else
	groups                map[string]*deadGroup
	figs                  figures
}

// deadGroup is the rows of one cause.
type deadGroup struct {
	code, key string
	ids       []string
	business  map[string]string // id to business key
}

func (d *dead) prepare(ctx context.Context) (err error) {
	if d.hook, err = d.newWebhook("token", "key "+letters(d.Rand, 8)); err != nil {
		return err
	}
	for _, err := range []error{
		d.broker.Exchange(d.exchange, "direct", nil),
		d.broker.Queue(amqptest.QueueSpec{Name: d.queue}),
		d.broker.Bind(d.queue, d.exchange, "good"),
		d.broker.Queue(amqptest.QueueSpec{Name: d.full, Args: amqp.Table{
			"x-max-length": int32(1), "x-overflow": "reject-publish",
		}}),
		d.broker.Bind(d.full, d.exchange, "full"),
		d.broker.Publish(ctx, d.exchange, "full", amqp.Publishing{Body: []byte("fills the queue")}),
	} {
		if err != nil {
			return err
		}
	}
	return d.start()
}

// start starts the compensator, again.
func (d *dead) start() (err error) {
	d.starts++
	d.now, err = d.replica(d.binary, fmt.Sprintf("dead-%d", d.starts), "--interval", "100ms",
		"--rate", fmt.Sprint(deadRate), "--max-attempts", fmt.Sprint(1+d.Rand.IntN(3)), "--min-dead-age", "0",
		"--base-delay", "100ms",
		"--alert-webhook", d.hook.url, "--alert-webhook-secret", string(d.hook.secret), "--alert-window", "5s",
		"--confirm-timeout", "5s")
	return err
}

// good stores good messages and returns how long it took until all had arrived.
func (d *dead) good(ctx context.Context) (time.Duration, error) {
	messages := make([]model.Message, deadGood)
	for i := range messages {
		messages[i] = d.message(d.exchange, "good", i, 512)
	}
	begin := time.Now()
	if _, err := d.shelve(ctx, serviceName, messages); err != nil {
		return 0, err
	}
	err := until(ctx, time.Minute, "the good messages are gone", func(ctx context.Context) (bool, error) {
		n, err := d.db.count(ctx, "routing_key = 'good'")
		return n == 0, err
	})
	return time.Since(begin), err
}

func (d *dead) baseline(ctx context.Context) (err error) {
	d.base, err = d.good(ctx)
	return err
}

// die lets 1,000 rows die while the webhook hangs and good messages pass.
func (d *dead) die(ctx context.Context) error {
	d.hook.become(hookHangs)
	first := 200 + d.Rand.IntN(300)
	second := 200 + d.Rand.IntN(300)
	if err := d.store(ctx, "unbound", "312", first); err != nil {
		return err
	}
	if err := d.store(ctx, "full", "nack", second); err != nil {
		return err
	}
	if err := d.store(ctx, "spoilt", "corrupt", deadRows-first-second); err != nil {
		return err
	}
	if err := until(ctx, time.Minute, "all are DEAD", d.allDead); err != nil {
		return err
	}
	if err := until(ctx, time.Minute, "the webhook hangs", func(context.Context) (bool, error) {
		return d.hook.called(hookHangs) > 0, nil
	}); err != nil {
		return err
	}
	beside, err := d.good(ctx)
	if err != nil {
		return err
	}
	d.figs["good_per_second_alone"] = int(deadGood / d.base.Seconds())
	d.figs["good_per_second_beside_a_hanging_webhook"] = int(deadGood / beside.Seconds())
	// A compensator that waited for the webhook would add 5 s to 5.
	d.Breaches.Check(beside < d.base+d.base/2, "good messages beside a webhook that hangs: %v, alone %v",
		beside, d.base)
	return nil
}

func (d *dead) store(ctx context.Context, key, code string, n int) error {
	g := &deadGroup{code: code, key: key, business: map[string]string{}}
	messages := make([]model.Message, n)
	for i := range messages {
		messages[i] = d.message(d.exchange, key, i, 512)
		messages[i].Key = fmt.Sprintf("%s-%d", key, i)
		if code == "corrupt" { // not before it was spoilt
			messages[i].NotBefore = time.Now().Add(time.Hour)
		}
	}
	ids, err := d.shelve(ctx, serviceName, messages)
	if err != nil {
		return err
	}
	for i, id := range ids {
		g.business[id] = messages[i].Key
	}
	g.ids = ids
	d.groups[code] = g
	if code != "corrupt" {
		return nil
	}
	return d.db.exec(ctx, "UPDATE trans_message SET properties = ?, not_before = 0, next_attempt_at = created_at "+
		"WHERE routing_key = ?",
		[]byte(`{"v":1,"headers":`), key)
}

func (d *dead) allDead(ctx context.Context) (bool, error) {
	n, err := d.db.count(ctx, "status = 'DEAD'")
	return n == deadRows, err
}

// killed kills the compensator in the middle of a call that hangs, and lets the next one
// meet a webhook that fails.
func (d *dead) killed(ctx context.Context) error {
	calls := d.hook.called(hookHangs)
	if err := until(ctx, time.Minute, "another call hangs", func(context.Context) (bool, error) {
		return d.hook.called(hookHangs) > calls, nil
	}); err != nil {
		return err
	}
	if err := d.now.Kill(); err != nil {
		return err
	}
	d.hook.become(hookFails)
	if err := d.start(); err != nil {
		return err
	}
	if err := until(ctx, 2*time.Minute, "the webhook has failed twice", func(context.Context) (bool, error) {
		return d.hook.called(hookFails) >= 2, nil
	}); err != nil {
		return err
	}
	d.Breaches.Equal("alerts accepted before the webhook worked", len(d.hook.dead()), 0)
	all, err := d.allDead(ctx)
	d.Breaches.Check(all, "DEAD rows are missing before any was repaired")
	return err
}

// alerted wants one alert for each cause, with its count and one of its rows.
func (d *dead) alerted(ctx context.Context) error {
	d.hook.become(hookWorks)
	if err := until(ctx, 2*time.Minute, "all DEAD rows were told", func(context.Context) (bool, error) {
		told := 0
		for _, a := range d.hook.dead() {
			told += a.Count
		}
		return told >= deadRows, nil
	}); err != nil {
		d.Breaches.Add("%v", err)
	}
	alerts := d.hook.dead()
	d.Breaches.Equal("alerts", len(alerts), len(d.groups))
	counts, want := map[string]int{}, map[string]int{}
	for code, g := range d.groups {
		want[code] = len(g.ids)
	}
	for _, a := range alerts {
		g := d.groups[a.Code]
		if !d.Breaches.Check(g != nil, "alert of the unknown cause %q", a.Code) {
			continue
		}
		counts[a.Code] += a.Count
		d.Breaches.Check(
			a.Service == serviceName && a.Exchange == d.exchange && a.RoutingKey == g.key && a.Command != "",
			"alert %s: service %q, exchange %q, routing key %q, command %q",
			a.Code, a.Service, a.Exchange, a.RoutingKey, a.Command)
		key, ok := g.business[a.Sample.ID]
		d.Breaches.Check(ok && key == a.Sample.Key, "alert %s: sample %q with key %q is none of its rows", a.Code,
			a.Sample.ID, a.Sample.Key)
		d.Breaches.Check(!a.First.IsZero() && !a.Last.Before(a.First), "alert %s: from %v to %v",
			a.Code, a.First, a.Last)
	}
	d.Breaches.Equal("rows told, by cause", counts, want)
	d.Breaches.Equal("alerts without a right signature", d.hook.unsigned, 0)
	d.figs["alerts"], d.figs["alert_counts"] = len(alerts), counts
	d.figs["calls_that_hung"], d.figs["calls_that_failed"] = d.hook.called(hookHangs), d.hook.called(hookFails)
	return nil
}
