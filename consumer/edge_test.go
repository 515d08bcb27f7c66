package consumer_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

// E1: tokens of 10 s on the broker's own OAuth2 plugin. The consumer outlives two of them on one connection, and may
// subscribe again over it: an old subscription would go on without a valid token.
func TestE1_ConsumersLoginIsRenewedOnTheOpenConnection(t *testing.T) {
	t.Parallel()
	oauth, err := amqptest.NewOAuth(t.TempDir())
	must(t, err)
	w := worldOn(t, amqptest.StartNode(t, oauth.Options()).URL())
	var asked, connected atomic.Int32
	r := w.run(w.queue(nil), func(c *consumer.Config) {
		c.Credentials = func(context.Context) (string, string, error) {
			asked.Add(1)
			token, err := oauth.Token(10*time.Second, "rabbitmq.read:*/*", "rabbitmq.write:*/*")
			return "service", token, err
		}
		c.Observers = []consumer.Observer{{Connected: func(string, uint64) { connected.Add(1) }}}
	})
	for round := 1; round <= 4; round++ {
		eventually(t, "the credentials were asked for again", func() bool { return asked.Load() >= int32(round) })
		must(t, r.Pause(workQueue))
		eventually(t, "nothing is taken", func() bool { return r.stats().Held == 0 })
		w.publish(names(strings.Repeat("m", round), 20)...)
		must(t, r.Resume(workQueue))
		eventually(t, "all are handled", func() bool { return r.stats().Handled == uint64(20*round) })
	}
	if n := connected.Load(); n != 1 {
		t.Errorf("%d connections, want the one", n)
	}
	w.isState(r, consumer.StateConsuming)
}

// A queue of the ladder is full: the copy is nacked (reject-publish), the original stays, and with room it goes on.
func TestFullLadderQueueLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.ladder.StepQueue(0)
	must(t, w.client.DeleteQueue(first))
	must(t, w.client.Queue(amqptest.QueueSpec{Name: first, Type: amqptest.Quorum, Args: amqp.Table{
		"x-max-length": int32(1), "x-overflow": "reject-publish",
	}}))
	eventually(t, "the step is full", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return w.client.Publish(ctx, "", first, amqp.Publishing{MessageId: "filler"}) != nil
	})
	r := w.run(w.queue(failing(nil)))
	w.publish("bad-1")
	h := w.isState(r, consumer.StateStuck)
	if !strings.Contains(h.Reason, first) || !strings.Contains(h.Reason, "nack") {
		t.Errorf("health %+v, want the queue named and the nack", h)
	}
	w.publish("good")
	if n := r.stats().Retried; n != 0 {
		t.Errorf("%d retried while the step is full, want none", n)
	}
	must(t, w.client.DeleteQueue(first))
	must(t, w.client.Step(w.ladder, 0))
	if letter := w.dead(1)[0]; letter.MessageId != "bad-1" {
		t.Errorf("dead letter %q", letter.MessageId)
	}
	eventually(t, "the other one is handled", func() bool { return r.stats().Handled == 1 })
	w.empty(r)
	if n := len(w.got.of("bad-1")); n != 3 {
		t.Errorf("%d attempts, want 3", n)
	}
}

// Headers that fill a frame leave no room for ours: the copy drops the texts of ours, then the largest of the message's
// own, and says which. No connection is closed for it.
func TestOversizedHeadersAreCutInTheCopy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.run(w.queue(func(_ context.Context, m *consumer.Message) error {
		if m.ID == "wide" {
			return errors.New(strings.Repeat("e", 1000))
		}
		return nil
	}))
	const frame = 131072
	w.publishAs(amqp.Publishing{MessageId: "wide", Body: []byte("body"), Headers: amqp.Table{
		"small": "kept", "large": strings.Repeat("x", frame-250),
	}})
	letter := w.dead(1)[0]
	if letter.MessageId != "wide" || string(letter.Body) != "body" || letter.Headers["small"] != "kept" {
		t.Errorf("dead letter %q, body %q, small %v", letter.MessageId, letter.Body, letter.Headers["small"])
	}
	if _, there := letter.Headers["large"]; there || letter.Headers["transmsg-dropped-header"] != "large" {
		t.Errorf("large is there: %t, dropped %v", there, letter.Headers["transmsg-dropped-header"])
	}
	if letter.Headers[model.HeaderCause] != model.CauseExhausted || letter.Headers[model.HeaderAttempts] != int64(3) {
		t.Errorf("cause %v, attempts %v", letter.Headers[model.HeaderCause], letter.Headers[model.HeaderAttempts])
	}
	w.publish("other")
	eventually(t, "the next one is handled", func() bool { return r.stats().Handled == 1 })
	w.empty(r)
}

// K14 in an ordered queue: attempts in place end with their process, so what counts there is the counter. A message
// whose process is stopped at its first attempt each time is given up after MaxCrashes counts, and holds up nobody.
func TestK14_OrderedAttemptsAreBoundedOverProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counter := &memory{n: map[string]int{}}
	proxy, through := w.proxied()
	q := w.queue(func(ctx context.Context, m *consumer.Message) error {
		if m.ID == "m-0" {
			proxy.Cut(true)
			<-ctx.Done()
		}
		return nil
	})
	q.Ordered, q.MaxCrashes = true, 2
	w.publish(names("m", 3)...)
	r := w.runOn(through, q, func(c *consumer.Config) { c.Redeliveries = counter })
	letter := w.dead(1)[0]
	if letter.MessageId != "m-0" || letter.Headers[model.HeaderCause] != model.CauseCrashed {
		t.Errorf("dead letter %q by %v", letter.MessageId, letter.Headers[model.HeaderCause])
	}
	eventually(t, "the others are handled", func() bool { return r.stats().Handled == 2 })
	w.empty(r)
	if got := strings.Join(w.got.order(), " "); !strings.HasSuffix(got, "m-0 m-1 m-2") {
		t.Errorf("order %s", got)
	}
}
