package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/faultproxy"
)

type toggle struct{ on atomic.Bool }

func (o *toggle) set(on bool) { o.on.Store(on) }
func (o *toggle) get() bool   { return o.on.Load() }

// consumers counts the consumers of the work queue.
func (w *world) consumers() int {
	w.t.Helper()
	conn, err := amqp.Dial(w.url)
	must(w.t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	must(w.t, err)
	q, err := ch.QueueDeclarePassive(workQueue, true, false, false, false, nil)
	must(w.t, err)
	return q.Consumers
}

// proxied is the world's URL through a proxy.
func (w *world) proxied() (*faultproxy.Proxy, string) {
	w.t.Helper()
	u, err := url.Parse(w.url)
	must(w.t, err)
	p, err := faultproxy.New(u.Host)
	must(w.t, err)
	w.t.Cleanup(func() { must(w.t, p.Close()) })
	u.Host = p.Addr()
	return p, u.String()
}

// K11: the consumer stops while the client library's buffer is full and handlers sleep. What no handler began goes
// back, what is handled is acked, and no channel is closed for it.
func TestK11_StopLosesNothingThatWasBuffered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(names("m", 800)...)
	handled, lost := atomic.Int32{}, atomic.Int32{}
	for range 4 {
		q := w.queue(func(context.Context, *consumer.Message) error {
			<-time.After(20 * time.Millisecond)
			return nil
		})
		q.Prefetch, q.Handlers, q.Deadline = 100, 4, 10*time.Second
		r := w.run(q)
		eventually(t, "the buffer is full", func() bool { return r.stats().Held > 50 })
		must(t, r.stop())
		s := r.stats()
		handled.Add(int32(s.Handled))
		lost.Add(int32(s.Lost))
		if s.Delivered != s.Handled+s.GivenBack || s.Held != 0 {
			t.Errorf("%d delivered, %d handled, %d given back, %d held", s.Delivered, s.Handled,
				s.GivenBack, s.Held)
		}
	}
	w.depth(workQueue, 800-int(handled.Load()))
	if lost.Load() != 0 {
		t.Errorf("%d deliveries were lost: a channel was closed", lost.Load())
	}
	if w.got.n() != int(handled.Load()) {
		t.Errorf("%d calls, %d handled", w.got.n(), handled.Load())
	}
	w.depth(deadName, 0)
}

// C29: the connection is cut again and again. The consumer is there each time, with one connection, and what was
// handled and could not be acked comes again.
func TestC29_ConsumerSurvivesCuts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	proxy, through := w.proxied()
	r := w.runOn(through, w.queue(nil))
	for i := range 20 {
		eventually(t, "it consumes", func() bool { return r.health().State == consumer.StateConsuming })
		w.publish(names(fmt.Sprint("m", i), 10)...)
		proxy.Cut(i%2 == 0)
	}
	eventually(t, "all were handled", func() bool { return w.got.distinct() == 200 })
	w.empty(r)
	eventually(t, "it consumes over one connection", func() bool {
		return proxy.Conns() == 1 && r.health().State == consumer.StateConsuming
	})
	w.depth(deadName, 0)
}

// The broker cancels the consumer since its queue was deleted: health says so, a message in a handler's hands is
// handled to its end, and the new queue is consumed.
func TestDeletedQueueIsConsumedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := make(chan struct{})
	var ended atomic.Int32
	q := w.queue(func(ctx context.Context, m *consumer.Message) error {
		if m.ID == "slow" {
			select {
			case <-release:
				ended.Add(1)
			case <-ctx.Done():
			}
		}
		return nil
	})
	r := w.run(q)
	w.publish("slow")
	eventually(t, "it is in the handler's hands", func() bool { return w.got.n() == 1 })
	must(t, w.client.DeleteQueue(workQueue))
	w.isState(r, consumer.StateMissing)
	close(release)
	eventually(t, "its handler has ended by itself", func() bool { return ended.Load() == 1 })
	must(t, w.client.Work(w.ladder, deadName))
	w.isState(r, consumer.StateConsuming)
	w.publish(names("m", 20)...)
	eventually(t, "the new queue's messages are handled", func() bool { return w.got.distinct() == 21 })
	w.empty(r)
}

// A queue that does not exist yet is tried again, with health down.
func TestMissingQueueIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.client.DeleteQueue(workQueue))
	r := w.run(w.queue(nil))
	if h := w.isState(r, consumer.StateMissing); h.Healthy() {
		t.Errorf("health %+v", h)
	}
	must(t, w.client.Work(w.ladder, deadName))
	w.isState(r, consumer.StateConsuming)
}

// K3, C61: a handler exceeds the broker's consumer timeout. The channel is closed under it, its late ack is dropped and
// closes nothing, and a new channel consumes.
func TestC61_ConsumerTimeout(t *testing.T) {
	t.Parallel()
	node := amqptest.StartNode(t, amqptest.Options{})
	// The second is no setting of a file on 3.10.
	for _, s := range []string{"consumer_timeout, 2000", "channel_tick_interval, 500"} {
		_, err := node.Eval("application:set_env(rabbit, " + s + ").")
		must(t, err)
	}
	w := worldOn(t, node.URL())
	var first atomic.Bool
	q := w.queue(func(ctx context.Context, m *consumer.Message) error {
		if m.ID == "slow" && first.CompareAndSwap(false, true) {
			<-ctx.Done() // lost before its deadline
			if cause := context.Cause(ctx); !errors.Is(cause, consumer.ErrLost) {
				t.Errorf("the context ended by %v, want ErrLost", cause)
			}
		}
		return nil
	})
	r := w.run(q) // it believes in 30 minutes
	w.publish("slow")
	eventually(t, "the delivery is lost", func() bool { return r.stats().Lost == 1 })
	eventually(t, "it is handled over a new channel", func() bool { return r.stats().Handled == 1 })
	w.publish(names("m", 30)...)
	eventually(t, "and the others", func() bool { return r.stats().Handled == 31 })
	w.empty(r)
	if n, err := node.Connections(); err != nil || n != 3 {
		t.Errorf("%d connections (%v), want the test's, the sender's and the consumer's", n, err)
	}
	must(t, r.stop())
	eventually(t, "its channels are gone", func() bool {
		n, err := node.Channels()
		must(t, err)
		return n <= 1 // the test's own
	})
}

// The broker goes away and comes back: everything is handled.
func TestConsumerSurvivesTheBroker(t *testing.T) {
	t.Parallel()
	node := amqptest.StartNode(t, amqptest.Options{})
	w := worldOn(t, node.URL())
	must(t, node.FlushQueues())
	w.publish(names("m", 100)...)
	q := w.queue(func(context.Context, *consumer.Message) error {
		<-time.After(20 * time.Millisecond)
		return nil
	})
	r := w.run(q)
	eventually(t, "some are handled", func() bool { return r.stats().Handled > 10 })
	must(t, node.Stop())
	w.isState(r, consumer.StateConnecting)
	must(t, node.Start(t.Context()))
	w.isState(r, consumer.StateConsuming)
	eventually(t, "all are handled", func() bool { return w.got.distinct() == 100 })
	w.client = amqptest.Connect(t, node.URL())
	w.empty(r)
	w.depth(deadName, 0)
}
