package publisher_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

// closes counts the channels that the broker closed.
type closes struct {
	mu sync.Mutex
	n  int
}

func (c *closes) add(int, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func (c *closes) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// world is a publisher with a sender of its own to a real broker; its store is memory.
type world struct {
	t *testing.T
	p *publisher.Publisher
}

func newWorld(t *testing.T, url string, edit func(*confirms.Config)) *world {
	t.Helper()
	cfg, err := confirms.ParseURL(url)
	must(t, err)
	edit(&cfg)
	sender, err := confirms.Open(cfg)
	must(t, err)
	p := open(t, newMemStore(), sender, nil)
	t.Cleanup(func() {
		closeNow(t, p)
		must(t, sender.Close(context.Background()))
	})
	must(t, sender.WaitReady(t.Context()))
	return &world{t: t, p: p}
}

// publish sends one message and waits for its outcome. While a channel is opened anew the publisher only
// stores: that says nothing, and the next is tried.
func (w *world) publish(exchange, key string) model.Outcome {
	w.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		r, err := w.p.Publish(w.t.Context(), model.Message{Exchange: exchange, RoutingKey: key, Body: []byte("x")})
		must(w.t, err)
		o, err := r.Wait(w.t.Context())
		must(w.t, err)
		if o.Code != model.CodeNotSent || time.Now().After(deadline) {
			return o
		}
		<-time.After(time.Millisecond)
	}
}

// E2: a publisher remembers what the broker refuses: an exchange without the right to write, a topic, an internal
// exchange. Forty messages to each, one after the other, close one channel of its own and those of the
// probes, and whoever waits is told why. Its other messages are sent and confirmed meanwhile.
func TestE2_PublisherRemembersWhatIsRefused(t *testing.T) {
	t.Parallel()
	node := amqptest.StartNode(t, amqptest.Options{})
	broker := amqptest.Connect(t, node.URL())
	must(t, errors.Join(broker.Exchange("ex", amqp.ExchangeTopic, nil),
		broker.Exchange("gone", amqp.ExchangeDirect, nil),
		broker.Exchange("topics", amqp.ExchangeTopic, nil), broker.InternalExchange("internal", amqp.ExchangeDirect),
		broker.Queue(amqptest.QueueSpec{Name: "q"}), broker.Bind("q", "ex", "k"), broker.Bind("q", "topics", "#"),
		node.AddUser("limited", "limited", "", "^(ex|topics|internal)$", "")))
	_, err := node.Ctl("set_topic_permissions", "-p", "/", "limited", "topics", "^good$", "")
	must(t, err)
	for _, c := range []struct{ name, exchange, key string }{
		{"exchange", "gone", "k"}, {"topic", "topics", "bad"}, {"internal", "internal", "k"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var closed closes
			w := newWorld(t, node.URLFor("limited", "limited", "/"), func(cfg *confirms.Config) {
				cfg.ProbeDelay = time.Minute
				cfg.Observers = []confirms.Observer{{ChannelClosed: closed.add}}
			})
			first := w.publish(c.exchange, c.key)
			if first.Code != model.CodeSuspect {
				t.Fatalf("first: %v, want a suspect of a closed channel", first)
			}
			second := w.publish(c.exchange, c.key)
			if second.Kind != model.Refused || second.Code != model.CodeAccessRefused {
				t.Fatalf("second: %v, want the probe refused with 403", second)
			}
			for i := range 40 {
				o := w.publish(c.exchange, c.key)
				if o.Kind != model.Deferred || o.Code != model.CodeAccessRefused {
					t.Fatalf("message %d: %v, want it deferred with 403", i, o)
				}
				if o := w.publish("ex", "k"); o.Kind != model.Acked {
					t.Fatalf("good message %d: %v, want acked", i, o)
				}
			}
			if o := w.publish("topics", "good"); o.Kind != model.Acked {
				t.Errorf("the topic's neighbour: %v, want acked", o)
			}
			if n := closed.count(); n != 2 {
				t.Errorf("%d channels closed, want 2: the first send's and the probe's", n)
			}
		})
	}
}
