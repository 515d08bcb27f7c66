package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

const (
	workQueue = "work"
	deadName  = "dead"
	patience  = 30 * time.Second
)

// quick is a ladder for tests.
func quick() []time.Duration { return []time.Duration{200 * time.Millisecond, 500 * time.Millisecond} }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v until %s", patience, what)
		}
	}
}

// world is a virtual host with one work queue, its ladder and its dead letters.
type world struct {
	t      *testing.T
	url    string
	client *amqptest.Client
	ladder model.Ladder
	got    *calls
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return worldOn(t, amqptest.VHost(t))
}

func worldOn(t *testing.T, url string) *world {
	t.Helper()
	w := &world{
		t: t, url: url, client: amqptest.Connect(t, url), got: &calls{},
		ladder: model.Ladder{Queue: workQueue, Steps: quick()},
	}
	must(t, w.client.Work(w.ladder, deadName))
	return w
}

// publish puts messages into the work queue through the default exchange.
func (w *world) publish(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		w.publishAs(amqp.Publishing{MessageId: id, Body: []byte("body " + id)})
	}
}

func (w *world) publishAs(p amqp.Publishing) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	p.DeliveryMode = amqp.Persistent
	must(w.t, w.client.Publish(ctx, "", workQueue, p))
}

func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return out
}

// queue is the work queue's config with the world's recording handler around handle.
func (w *world) queue(handle consumer.Handler) consumer.Queue {
	return consumer.Queue{
		Name: workQueue, Steps: w.ladder.Steps, DeadLetterExchange: deadName, MaxBackoff: 2 * time.Second,
		Handler: func(ctx context.Context, m *consumer.Message) error {
			w.got.add(m)
			if handle == nil {
				return nil
			}
			return handle(ctx, m)
		},
	}
}

// running is a consumer that runs.
type running struct {
	*consumer.Consumer
	stop func() error
}

// run starts a consumer of the queue, with a sender of its own, and stops it at the test's end.
func (w *world) run(q consumer.Queue, edit ...func(*consumer.Config)) *running {
	w.t.Helper()
	return w.runOn(w.url, q, edit...)
}

func (w *world) runOn(url string, q consumer.Queue, edit ...func(*consumer.Config)) *running {
	w.t.Helper()
	logger := slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	sending, err := confirms.ParseURL(w.url)
	must(w.t, err)
	sending.Logger = logger
	sender, err := confirms.Open(sending)
	must(w.t, err)
	cfg, err := consumer.ParseURL(url)
	must(w.t, err)
	cfg.Queues, cfg.Sender, cfg.Logger, cfg.DrainTimeout = []consumer.Queue{q}, sender, logger, 5*time.Second
	for _, f := range edit {
		f(&cfg)
	}
	c, err := consumer.New(cfg)
	must(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	var once sync.Once
	var result error
	r := &running{Consumer: c, stop: func() error {
		once.Do(func() {
			cancel()
			result = <-ended
			closing, done := context.WithTimeout(context.Background(), 5*time.Second)
			defer done()
			_ = sender.Close(closing) // sends that were given up may be open
		})
		return result
	}}
	w.t.Cleanup(func() {
		if w.t.Failed() {
			w.t.Logf("health %+v, stats %+v", r.health(), r.stats())
		}
		if err := r.stop(); err != nil && !errors.Is(err, model.ErrNotDrained) {
			w.t.Error(err)
		}
	})
	return r
}

func (r *running) stats() consumer.Stats        { return r.Stats()[0] }
func (r *running) health() consumer.QueueHealth { return r.Health()[0] }

// isState waits for a state of the queue and returns its health.
func (w *world) isState(r *running, s consumer.State) consumer.QueueHealth {
	w.t.Helper()
	eventually(w.t, "the queue is "+string(s), func() bool { return r.health().State == s })
	return r.health()
}

// depth waits until a queue has so many ready messages.
func (w *world) depth(queue string, want int) {
	w.t.Helper()
	last := -1
	w.t.Cleanup(func() {
		if w.t.Failed() {
			w.t.Logf("%d messages in %s when looked at last, want %d", last, queue, want)
		}
	})
	eventually(w.t, fmt.Sprintf("%d messages are in %s", want, queue), func() bool {
		n, err := w.client.Depth(queue)
		must(w.t, err)
		last = n
		return n == want
	})
}

// dead takes n dead letters.
func (w *world) dead(n int) []amqp.Delivery {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	got, err := w.client.Collect(ctx, deadName, n)
	must(w.t, err)
	return got
}

// empty waits until nothing is left in the work queue and its ladder, and nothing is held.
func (w *world) empty(r *running) {
	w.t.Helper()
	eventually(w.t, "work queue and ladder are empty", func() bool {
		if r.stats().Held > 0 {
			return false
		}
		for _, q := range append([]string{workQueue}, steps(w.ladder)...) {
			if n, err := w.client.Depth(q); err != nil || n > 0 {
				return false
			}
		}
		return true
	})
}

func steps(l model.Ladder) []string {
	out := make([]string, len(l.Steps))
	for i := range out {
		out[i] = l.StepQueue(i)
	}
	return out
}

// calls records what a handler was given.
type calls struct {
	mu  sync.Mutex
	all []*consumer.Message
	at  []time.Time
}

func (c *calls) add(m *consumer.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all, c.at = append(c.all, m), append(c.at, time.Now())
}

// of returns the messages with an id, in order of their calls.
func (c *calls) of(id string) []*consumer.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*consumer.Message
	for _, m := range c.all {
		if m.ID == id {
			out = append(out, m)
		}
	}
	return out
}

func (c *calls) n() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

// distinct counts the ids.
func (c *calls) distinct() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := map[string]bool{}
	for _, m := range c.all {
		ids[m.ID] = true
	}
	return len(ids)
}

// order returns the ids in the order of their calls.
func (c *calls) order() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]string, len(c.all))
	for i, m := range c.all {
		out[i] = m.ID
	}
	return out
}
