package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/model"
)

const (
	effectMessages  = 5000
	effectKills     = 20
	effectProcesses = 2
)

// effectQueues are two consumers' queues: both get every message.
var effectQueues = []string{"payments", "mails"}

// oneEffectCheck delivers each message two to four times to two processes that are killed.
func oneEffectCheck() check {
	return check{
		name: "one-effect",
		about: "messages delivered two to four times, also at once, to consumers killed with -9 twenty times: one " +
			"effect for each consumer and message",
		run: onServer(worldOptions{}, func(ctx context.Context, w *world) (figures, error) {
			o := &oneEffect{world: w, exchange: w.name("ex"), dead: w.name("dead")}
			return o.run(ctx)
		}),
	}
}

// oneEffect is one run.
type oneEffect struct {
	*world
	exchange, dead  string
	queues          []string
	children        [effectProcesses]*child
	readers         sync.WaitGroup
	skipped, busy   atomic.Int64
	published, hits int
}

func (o *oneEffect) run(ctx context.Context) (figures, error) {
	for _, step := range []func(context.Context) error{o.prepare, o.publish, o.killing, o.finish} {
		if err := step(ctx); err != nil {
			for _, c := range o.children {
				if c != nil {
					_ = c.kill() // the step's error says more
				}
			}
			return nil, err
		}
	}
	figs := figures{
		"messages": effectMessages, "published": o.published, "kills": effectKills, "kills_in_work": o.hits,
		"skipped": o.skipped.Load(), "busy": o.busy.Load(),
	}
	return figs, o.check(ctx, figs)
}

// prepare declares two queues behind one exchange, and a table of effects without a unique key.
func (o *oneEffect) prepare(ctx context.Context) error {
	if err := o.broker.Exchange(o.exchange, "fanout", nil); err != nil {
		return err
	}
	for _, name := range effectQueues {
		queue := o.name(name)
		o.queues = append(o.queues, queue)
		ladder := model.Ladder{Queue: queue, Steps: effectSteps()}
		if err := o.broker.Work(ladder, o.dead); err != nil {
			return err
		}
		if err := o.broker.Bind(queue, o.exchange, ""); err != nil {
			return err
		}
	}
	return o.db.exec(ctx, "CREATE TABLE effects (consumer VARCHAR(64) NOT NULL, message VARCHAR(64) NOT NULL)")
}

// publish puts each message two to four times, half of the copies right behind each other so that two processes get
// them at once, the others anywhere.
func (o *oneEffect) publish(ctx context.Context) error {
	var ids []string
	for range effectMessages {
		id, copies := model.NewID(), 2+o.Rand.IntN(3)
		if o.Rand.IntN(2) == 0 {
			ids = append(ids, strings.Split(strings.Repeat(" "+id, copies)[1:], " ")...)
			continue
		}
		for range copies {
			at := o.Rand.IntN(len(ids) + 1)
			ids = append(ids, id)
			ids[at], ids[len(ids)-1] = ids[len(ids)-1], ids[at]
		}
	}
	o.published = len(ids)
	conn, err := amqp.Dial(o.url)
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	waits := make([]*amqp.DeferredConfirmation, len(ids))
	for i, id := range ids {
		msg := amqp.Publishing{MessageId: id, DeliveryMode: amqp.Persistent, Body: []byte(id)}
		if waits[i], err = ch.PublishWithDeferredConfirmWithContext(ctx, o.exchange, "", true, false, msg); err != nil {
			return err
		}
	}
	for _, w := range waits {
		if ok, err := w.WaitContext(ctx); err != nil || !ok {
			return fmt.Errorf("a test message was not confirmed: %w", err)
		}
	}
	return nil
}

// killing keeps two processes at work and kills them by turns.
func (o *oneEffect) killing(ctx context.Context) error {
	for i := range o.children {
		if err := o.start(i); err != nil {
			return err
		}
	}
	for n := range effectKills {
		before, err := o.db.number(ctx, "SELECT COUNT(*) FROM effects")
		if err != nil {
			return err
		}
		more := 5 + o.Rand.IntN(100)
		if err := until(ctx, time.Minute, "there are more effects", func(ctx context.Context) (bool, error) {
			now, err := o.db.number(ctx, "SELECT COUNT(*) FROM effects")
			return now >= before+more || now >= effectMessages*len(effectQueues), err
		}); err != nil {
			return err
		}
		now, err := o.db.number(ctx, "SELECT COUNT(*) FROM effects")
		if err != nil {
			return err
		}
		if now < effectMessages*len(effectQueues) {
			o.hits++
		}
		i := n % effectProcesses
		if err := o.children[i].kill(); err != nil {
			return err
		}
		if err := o.start(i); err != nil {
			return err
		}
	}
	return nil
}

// start runs a consuming process and counts what it says.
func (o *oneEffect) start(i int) error {
	c, err := startChild("one-effect", consumeOrder{
		Dialect: o.Store, DSN: o.dsn, AMQP: o.url, Queues: o.queues, Names: effectQueues, Dead: o.dead,
		Seed: o.Rand.Uint64(),
	})
	if err != nil {
		return err
	}
	o.children[i] = c
	up := make(chan struct{})
	o.readers.Go(func() {
		for lines := bufio.NewScanner(c.out); lines.Scan(); {
			switch lines.Text() {
			case "up":
				close(up)
			case "skipped":
				o.skipped.Add(1)
			case "busy":
				o.busy.Add(1)
			}
		}
	})
	select {
	case <-up:
		return nil
	case <-time.After(time.Minute):
		return fmt.Errorf("consuming process %d is not up after a minute", i)
	}
}

// finish waits until nothing is left anywhere, and stops the processes as a service is stopped.
func (o *oneEffect) finish(ctx context.Context) error {
	err := until(ctx, 5*time.Minute, "queues and ladders are empty", func(ctx context.Context) (bool, error) {
		n, err := o.left()
		return n == 0, err
	})
	if err != nil {
		return err
	}
	for _, c := range o.children {
		if err := c.in.Close(); err != nil {
			return err
		}
	}
	o.readers.Wait()
	for i, c := range o.children {
		if err := c.cmd.Wait(); err != nil {
			return fmt.Errorf("stop consuming process %d: %w", i, err)
		}
	}
	n, err := o.left() // what was unacked shows now
	o.Breaches.Equal("messages left in the queues after the stop", n, 0)
	return err
}

// left counts the messages in the work queues and their ladders.
func (o *oneEffect) left() (total int, err error) {
	for _, queue := range o.queues {
		ladder := model.Ladder{Queue: queue, Steps: effectSteps()}
		names := []string{queue}
		for i := range ladder.Steps {
			names = append(names, ladder.StepQueue(i))
		}
		for _, name := range names {
			n, err := o.broker.Depth(name)
			if err != nil {
				return 0, err
			}
			total += n
		}
	}
	return total, nil
}

// check counts effects by raw SQL, and compares them with the inbox.
func (o *oneEffect) check(ctx context.Context, figs figures) error {
	want := effectMessages * len(effectQueues)
	key := map[string]string{
		"mysql": "CONVERT(i.record_key USING utf8mb4)", "postgres": "convert_from(i.record_key, 'UTF8')",
	}[o.Store]
	for _, q := range []struct{ what, query string }{
		{"effects", "SELECT COUNT(*) FROM effects"},
		{
			"pairs of consumer and message with an effect",
			"SELECT COUNT(*) FROM (SELECT DISTINCT consumer, message FROM effects) d",
		},
		{"inbox records", "SELECT COUNT(*) FROM trans_inbox"},
		{
			"effects with an inbox record",
			"SELECT COUNT(*) FROM effects e JOIN trans_inbox i ON i.consumer = e.consumer AND " + key + " = e.message",
		},
	} {
		n, err := o.db.number(ctx, q.query)
		if err != nil {
			return err
		}
		figs[strings.ReplaceAll(q.what, " ", "_")] = n
		o.Breaches.Equal(q.what, n, want)
	}
	n, err := o.broker.Depth(o.dead)
	o.Breaches.Equal("dead letters", n, 0)
	o.Breaches.AtLeast("kills while effects were missing", int64(o.hits), effectKills)
	o.Breaches.AtLeast("deliveries that were skipped", o.skipped.Load(), effectMessages)
	return err
}

func effectSteps() []time.Duration { return []time.Duration{200 * time.Millisecond, time.Second} }
