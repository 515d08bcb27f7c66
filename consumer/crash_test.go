package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

// killer is a handler for which the message "killer" ends the process: the consumer's connection is cut and the handler
// never answers about it, which is the same to the broker. It notes what else was in a handler's hands.
func (w *world) killer(cut func(), near *calls) consumer.Handler {
	var at calls
	return func(ctx context.Context, m *consumer.Message) error {
		if m.ID != "killer" {
			at.add(m)
			<-time.After(2 * time.Millisecond)
			return nil
		}
		if m.Redelivered {
			near.add(m)
		}
		cut()
		<-ctx.Done()
		return ctx.Err()
	}
}

// K1: one message ends the process each time, among 50 that are delivered with it. It alone is a dead letter; the
// others are handled, and from its second delivery on nothing was delivered with it.
func TestK1_OnlyTheKillerIsADeadLetter(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{amqptest.Quorum, amqptest.Classic} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if kind == amqptest.Classic {
				must(t, w.client.DeleteQueue(workQueue))
				must(t, w.client.Queue(amqptest.QueueSpec{Name: workQueue}))
			}
			ids := append(names("m", 25), "killer")
			w.publish(append(ids, names("n", 24)...)...)
			proxy, through := w.proxied()
			var near calls
			q := w.queue(w.killer(func() { proxy.Cut(true) }, &near))
			q.MaxCrashes = 3
			r := w.runOn(through, q)
			letter := w.dead(1)[0]
			if letter.MessageId != "killer" || letter.Headers[model.HeaderCause] != model.CauseCrashed {
				t.Errorf("dead letter %q by %v", letter.MessageId, letter.Headers[model.HeaderCause])
			}
			eventually(t, "the others are handled", func() bool { return w.got.distinct() == 50 })
			w.empty(r)
			w.depth(deadName, 0)
			if n := len(w.got.of("killer")); n > 1+3+3 {
				t.Errorf("the killer was handled %d times, want at most 7", n)
			}
			for _, id := range ids[:25] {
				if n := len(w.got.of(id)); n > 2 {
					t.Errorf("%s was handled %d times: a neighbour is handled once more at most", id, n)
				}
			}
		})
	}
}

// The count is the database's where a counter is given: no copy is made for it.
func TestRedeliveriesAreCountedByTheCounter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	proxy, through := w.proxied()
	var near calls
	counter := &memory{n: map[string]int{}}
	q := w.queue(w.killer(func() { proxy.Cut(true) }, &near))
	q.MaxCrashes = 3
	w.publish(append(names("m", 10), "killer")...)
	r := w.runOn(through, q, func(c *consumer.Config) { c.Redeliveries = counter })
	letter := w.dead(1)[0]
	if letter.MessageId != "killer" || letter.Headers[model.HeaderCause] != model.CauseCrashed {
		t.Errorf("dead letter %q by %v", letter.MessageId, letter.Headers[model.HeaderCause])
	}
	w.empty(r)
	if s := r.stats(); s.Recounted != 0 {
		t.Errorf("%d copies for counting, want none", s.Recounted)
	}
	if n := counter.n["killer"]; n != 4 {
		t.Errorf("counted %d times, want 4", n)
	}
}

type memory struct{ n map[string]int } // one at a time for each queue

func (c *memory) CountRedelivery(_ context.Context, m *consumer.Message) (int, error) {
	c.n[m.ID]++
	return c.n[m.ID], nil
}

// The database of the counter is away: the queue waits for it, and nobody dies.
func TestUnavailableCounterPausesTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.client.DeleteQueue(workQueue))
	must(t, w.client.Queue(amqptest.QueueSpec{Name: workQueue})) // classic: counted from the first redelivery on
	proxy, through := w.proxied()
	var down toggle
	down.set(true)
	var cut toggle
	q := w.queue(func(ctx context.Context, m *consumer.Message) error {
		if m.ID == "m" && !m.Redelivered {
			cut.set(true)
			proxy.Cut(true)
			<-ctx.Done()
		}
		return nil
	})
	r := w.runOn(through, q, func(c *consumer.Config) {
		c.Redeliveries = counterFunc(func() (int, error) {
			if down.get() {
				return 0, errors.New("database: connection refused")
			}
			return 1, nil
		})
	})
	w.publish("m")
	w.isState(r, consumer.StateUnavailable)
	down.set(false)
	eventually(t, "it is handled", func() bool { return r.stats().Handled == 1 })
	w.empty(r)
}

type counterFunc func() (int, error)

func (f counterFunc) CountRedelivery(context.Context, *consumer.Message) (int, error) { return f() }

// K2: the consumer is stopped 25 times with its prefetch full, or its connection cut. No message is a dead letter.
func TestK2_RollingRestartsKillNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	proxy, through := w.proxied()
	w.publish(names("m", 120)...)
	for i := range 25 {
		q := w.queue(func(ctx context.Context, _ *consumer.Message) error {
			select {
			case <-time.After(10 * time.Millisecond):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		r := w.runOn(through, q)
		eventually(t, "something is held", func() bool { return r.stats().Held > 0 || r.stats().Handled > 0 })
		proxy.Cut(i%2 == 0)
		must(t, r.stop())
	}
	r := w.run(w.queue(nil))
	eventually(t, "all are handled", func() bool { return w.got.distinct() == 120 })
	w.empty(r)
	w.depth(deadName, 0)
}

// K14: the attempts are the message's: another consumer goes on where the first has ended.
func TestK14_AttemptsAreTheMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fail := func(context.Context, *consumer.Message) error { return errors.New("no") }
	r := w.run(w.queue(fail))
	w.publish("m")
	eventually(t, "the first attempt has failed", func() bool { return r.stats().Retried == 1 })
	must(t, r.stop())
	r = w.run(w.queue(fail))
	w.dead(1)
	w.empty(r)
	got := w.got.of("m")
	if len(got) != 3 {
		t.Fatalf("%d attempts by two consumers, want 3", len(got))
	}
	for i, m := range got {
		if m.Attempt != i+1 {
			t.Errorf("call %d is attempt %d", i, m.Attempt)
		}
	}
}

// K15: the work queue is full when a step ends. The copy waits in its step and is not dropped.
func TestK15_StepWaitsForAFullWorkQueue(t *testing.T) {
	t.Parallel()
	node := amqptest.StartNode(t, amqptest.Options{})
	// How long the step waits after a refusal: three minutes else.
	_, err := node.Eval("application:set_env(rabbit, dead_letter_worker_publisher_confirm_timeout, 1000).")
	must(t, err)
	w := worldOn(t, node.URL())
	must(t, w.client.DeleteQueue(workQueue))
	must(t, w.client.Queue(amqptest.QueueSpec{Name: workQueue, Type: amqptest.Quorum, Args: amqp.Table{
		"x-max-length": int32(1), "x-overflow": "reject-publish",
	}}))
	r := w.run(w.queue(func(_ context.Context, m *consumer.Message) error {
		if m.Attempt == 1 {
			return errors.New("no")
		}
		return nil
	}))
	w.publish("m")
	eventually(t, "it waits in its step", func() bool { return r.stats().Retried == 1 })
	must(t, r.stop())
	full := 0
	eventually(t, "the work queue is full", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		full++
		return w.client.Publish(ctx, "", workQueue, amqp.Publishing{MessageId: fmt.Sprint("f", full)}) != nil
	})
	<-time.After(2 * w.ladder.Steps[0]) // its step is over, and its copy was refused
	r = w.run(w.queue(nil))
	eventually(t, "it is handled", func() bool { return len(w.got.of("m")) == 2 })
	w.depth(deadName, 0)
}
