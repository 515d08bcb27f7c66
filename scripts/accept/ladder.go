package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

const (
	ladderGood   = 10_000
	ladderBad    = 20
	ladderStuck  = 100 // copies for a deleted and for a full queue
	ladderParked = 20  // copies in each step while consumer and broker are away
	// ladderSlack is how late an attempt may be on a busy machine; one that waited behind the next step, or for a
	// forwarder, is later.
	ladderSlack = 4 * time.Second
)

// ladderCheck watches attempts climb, with other queues' copies stuck, and over a restart.
func ladderCheck() check {
	return check{
		name: "ladder",
		about: "attempts after 1 s, 5 s, 30 s while 10,000 good messages pass and 100 copies each wait for a deleted " +
			"and a full queue; consumer and broker away with copies in each step; " +
			"a poison message has exactly its attempts",
		once: true,
		run:  runLadder,
	}
}

type ladderRun struct {
	*env
	figs   figures
	url    string
	node   *amqptest.Node // of its own, since it is restarted
	broker *amqptest.Client
	in     *intake
}

func runLadder(ctx context.Context, e *env) (_ figures, err error) {
	l := &ladderRun{env: e, figs: figures{}}
	undo, err := l.openBroker(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, undo()) }()
	l.figs["rabbitmq"] = l.broker.Version()
	steps := []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}
	l.in = newIntake(l.broker, "work", steps)
	l.in.answer = func(_ context.Context, m *consumer.Message) error {
		switch {
		case strings.HasPrefix(m.ID, "permanent"):
			return consumer.Permanent(errors.New("no such order"))
		case strings.HasPrefix(m.ID, "bad"):
			return errors.New("it always fails")
		}
		return nil
	}
	if err := l.broker.Work(l.in.ladder, "dead"); err != nil {
		return nil, err
	}
	if err := l.jam(ctx); err != nil {
		return l.figs, err
	}
	if err := l.climb(ctx); err != nil {
		return l.figs, err
	}
	return l.figs, l.away(ctx)
}

func (l *ladderRun) openBroker(ctx context.Context) (undo func() error, err error) {
	if l.node, err = amqptest.NewNode(ctx, "", amqptest.Options{}); err != nil {
		return nil, err
	}
	l.url = l.node.URL()
	if l.broker, err = amqptest.Dial(l.url); err != nil {
		return nil, errors.Join(err, l.node.Close())
	}
	return l.node.Close, nil
}

// jam puts copies into the first steps of two other queues, of which one is deleted and one is full.
func (l *ladderRun) jam(ctx context.Context) error {
	for _, queue := range []string{"gone", "full"} {
		other := model.Ladder{Queue: queue, Steps: l.in.ladder.Steps[:1]}
		if err := l.broker.Work(other, "dead"); err != nil {
			return err
		}
		if err := l.broker.DeleteQueue(queue); err != nil {
			return err
		}
		for i := range ladderStuck {
			m := amqp.Publishing{MessageId: fmt.Sprint(queue, i), DeliveryMode: amqp.Persistent}
			if err := l.broker.Publish(ctx, "", other.StepQueue(0), m); err != nil {
				return err
			}
		}
	}
	return l.broker.Queue(amqptest.QueueSpec{Name: "full", Type: amqptest.Quorum, Args: amqp.Table{
		"x-max-length": int32(1), "x-overflow": "reject-publish",
	}})
}

// climb sends good and bad messages, and looks at the attempts.
func (l *ladderRun) climb(ctx context.Context) error {
	if err := l.in.start(l.url); err != nil {
		return err
	}
	defer func() { _ = l.in.stop() }() // told below
	bad, good := numbered("bad", ladderBad), numbered("good", ladderGood)
	if err := l.in.publish(ctx, append(bad, "permanent")...); err != nil {
		return err
	}
	if err := l.flood(ctx, good); err != nil {
		return err
	}
	err := until(ctx, 3*time.Minute, "the bad ones are dead letters", func(context.Context) (bool, error) {
		n, err := l.broker.Depth("dead")
		return n >= ladderBad+1, err
	})
	if err != nil {
		l.Breaches.Add("%v", err)
	}
	l.Breaches.Equal("good messages handled", l.in.seen(good), ladderGood)
	late := time.Duration(0)
	for _, id := range bad {
		tries, at := l.in.calls(id)
		if !l.Breaches.Check(slices.Equal(tries, []int{1, 2, 3, 4}), "%s had the attempts %v, want 1 2 3 4", id,
			tries) {
			continue
		}
		for i, step := range l.in.ladder.Steps {
			gap := at[i+1].Sub(at[i])
			late = max(late, gap-step)
			l.Breaches.Check(gap >= step && gap < step+ladderSlack, "%s: attempt %d came %v after the one before, "+
				"want %v", id, i+2, gap, step)
		}
	}
	tries, _ := l.in.calls("permanent-0")
	first, _ := l.in.calls("permanent")
	l.Breaches.Equal("attempts of a permanent error", len(tries)+len(first), 1)
	letters, err := l.broker.Drain("dead")
	if err != nil {
		return err
	}
	l.Breaches.Equal("dead letters", len(letters), ladderBad+1)
	l.figs["latest_attempt_seconds"] = late.Seconds()
	return l.in.stop()
}

// flood publishes the good messages over a few connections at once.
func (l *ladderRun) flood(ctx context.Context, ids []string) error {
	const ways = 4
	var all sync.WaitGroup
	failed := make([]error, ways)
	for i := range ways {
		all.Go(func() {
			c, err := amqptest.Dial(l.url)
			if err != nil {
				failed[i] = err
				return
			}
			one := &intake{broker: c, ladder: l.in.ladder}
			failed[i] = errors.Join(one.publish(ctx, ids[i*len(ids)/ways:(i+1)*len(ids)/ways]...), c.Close())
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// away has copies in each step while the consumer is away, and the broker for a part of it.
func (l *ladderRun) away(ctx context.Context) error {
	var ids []string
	for i := range l.in.ladder.Steps {
		for _, id := range numbered(fmt.Sprint("step", i), ladderParked) {
			ids = append(ids, id)
			m := amqp.Publishing{MessageId: id, DeliveryMode: amqp.Persistent, Headers: amqp.Table{
				model.HeaderAttempts: int64(i + 1), model.HeaderQueue: l.in.ladder.Queue,
			}}
			if err := l.broker.Publish(ctx, "", l.in.ladder.StepQueue(i), m); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(l.node.FlushQueues(), l.node.Stop(), l.node.Start(ctx)); err != nil {
		return err
	}
	var err error
	if l.broker, err = amqptest.Dial(l.url); err != nil {
		return err
	}
	l.in.broker = l.broker
	if err := until(ctx, 3*time.Minute, "all steps are over", func(context.Context) (bool, error) {
		n, err := l.broker.Depth(l.in.ladder.Queue)
		return n == len(ids), err
	}); err != nil {
		l.Breaches.Add("%v", err)
	}
	if err := l.in.start(l.url); err != nil {
		return err
	}
	if err := until(ctx, time.Minute, "all are handled", func(context.Context) (bool, error) {
		return l.in.seen(ids) == len(ids), nil
	}); err != nil {
		l.Breaches.Add("%v", err)
	}
	for i := range l.in.ladder.Steps {
		for _, id := range numbered(fmt.Sprint("step", i), ladderParked) {
			tries, _ := l.in.calls(id)
			l.Breaches.Check(slices.Equal(tries, []int{i + 2}), "%s had the attempts %v, want %d", id, tries, i+2)
		}
	}
	return errors.Join(l.in.stop(), l.broker.Close())
}
