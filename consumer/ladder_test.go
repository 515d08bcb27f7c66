package consumer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/model"
)

func TestMessagesAreHandledAndAcked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(names("m", 200)...)
	r := w.run(w.queue(nil))
	eventually(t, "all are handled", func() bool { return r.stats().Handled == 200 })
	w.empty(r)
	must(t, r.stop())
	w.depth(workQueue, 0)
	if n := w.got.n(); n != 200 || w.got.distinct() != 200 {
		t.Errorf("%d calls for %d messages, want 200 each", n, w.got.distinct())
	}
}

// K16, C57: a message that always fails has its attempts, each a step later, and is then a dead letter with its cause;
// the copies carry no x-death, and what they carry does not grow.
func TestK16_FailedMessageClimbsTheLadder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("é", 3000) + "\xff\x00"
	q := w.queue(func(_ context.Context, m *consumer.Message) error {
		if m.ID == "bad" {
			return errors.New(long)
		}
		return nil
	})
	r := w.run(q)
	w.publishAs(amqp.Publishing{
		MessageId: "bad", Body: []byte("b\x00dy"), Expiration: "3600000", Type: "t", UserId: "guest",
		Headers: amqp.Table{"mine": int32(7), "CC": []any{"nowhere"}, "x-first-death-queue": "q"},
	})
	w.publish(names("good", 50)...)
	letter := w.dead(1)[0]
	calls := w.got.of("bad")
	if len(calls) != 3 {
		t.Fatalf("%d attempts, want 3", len(calls))
	}
	for i, m := range calls {
		if m.Attempt != i+1 || m.MaxAttempts != 3 || (i > 0) != (m.First != nil) ||
			m.Properties.Expiration != "3600000" {
			t.Errorf("call %d: attempt %d of %d, first failure %v, expiration %q", i, m.Attempt, m.MaxAttempts, m.First,
				m.Properties.Expiration)
		}
		if m.Exchange != "" || m.RoutingKey != workQueue {
			t.Errorf("call %d: from %q %q, want the first delivery's", i, m.Exchange, m.RoutingKey)
		}
	}
	h := letter.Headers
	for k, want := range map[string]any{
		"mine": int32(7), model.HeaderAttempts: int64(3), model.HeaderCause: model.CauseExhausted,
		model.HeaderQueue: workQueue, model.HeaderRoutingKey: workQueue, model.HeaderExpiration: "3600000",
	} {
		if h[k] != want {
			t.Errorf("header %s is %v, want %v", k, h[k], want)
		}
	}
	for _, k := range []string{"x-death", "CC", "x-first-death-queue", model.HeaderCrashes} {
		if v, there := h[k]; there {
			t.Errorf("the dead letter has %s: %v", k, v)
		}
	}
	text, _ := h[model.HeaderError].(string)
	if len(text) == 0 || len(text) > model.MaxErrorText || !utf8.ValidString(text) || strings.Contains(text, "\x00") {
		t.Errorf("error text of %d bytes, valid UTF-8 %t", len(text), utf8.ValidString(text))
	}
	if string(letter.Body) != "b\x00dy" || letter.Type != "t" || letter.Expiration != "" || letter.UserId != "" ||
		letter.DeliveryMode != amqp.Persistent {
		t.Errorf("body %q, type %q, expiration %q, user %q, mode %d", letter.Body, letter.Type, letter.Expiration,
			letter.UserId, letter.DeliveryMode)
	}
	if id, _ := h[model.HeaderRejection].(string); len(id) != 36 {
		t.Errorf("rejection %q", id)
	}
	w.empty(r)
	if s := r.stats(); s.Handled != 50 || s.Retried != 2 || s.DeadLettered != 1 {
		t.Errorf("%d handled, %d retried, %d dead", s.Handled, s.Retried, s.DeadLettered)
	}
}

func TestPermanentErrorIsADeadLetterAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.run(w.queue(func(context.Context, *consumer.Message) error {
		return consumer.Permanent(errors.New("no such order"))
	}))
	w.publish("bad")
	letter := w.dead(1)[0]
	if h := letter.Headers; h[model.HeaderCause] != model.CausePermanent || h[model.HeaderAttempts] != int64(1) ||
		h[model.HeaderError] != "no such order" {
		t.Errorf("headers %v", h)
	}
	w.empty(r)
	if n := w.got.n(); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

// C57: a panic is a failure that counts, and the consumer goes on.
func TestC57_PanicIsACountedFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.run(w.queue(func(_ context.Context, m *consumer.Message) error {
		if m.ID == "bad" {
			panic("boom")
		}
		return nil
	}))
	w.publish("bad")
	w.publish(names("good", 20)...)
	letter := w.dead(1)[0]
	if h := letter.Headers; h[model.HeaderError] != "panic: boom" || h[model.HeaderAttempts] != int64(3) {
		t.Errorf("headers %v", h)
	}
	w.empty(r)
	if s := r.stats(); s.Panics != 3 || s.Handled != 20 {
		t.Errorf("%d panics, %d handled, want 3 and 20", s.Panics, s.Handled)
	}
}

func TestHandlerHasADeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	q := w.queue(func(ctx context.Context, m *consumer.Message) error {
		if m.Attempt > 1 {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	})
	q.Deadline = 200 * time.Millisecond
	r := w.run(q)
	w.publish("slow")
	eventually(t, "it is handled at the second attempt", func() bool { return r.stats().Handled == 1 })
	if s := r.stats(); s.Deadlines != 1 || s.Retried != 1 {
		t.Errorf("%d deadlines, %d retried, want 1 each", s.Deadlines, s.Retried)
	}
}

func TestSkippedIsAckedAndCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.run(w.queue(func(context.Context, *consumer.Message) error { return consumer.Skipped("done") }))
	w.publish("again")
	eventually(t, "it is skipped", func() bool { return r.stats().Skipped == 1 })
	w.empty(r)
	w.depth(deadName, 0)
}

// Messages without an id, and with one that others have too: each is copied, none is taken for another.
func TestEqualAndMissingIDsAreCopiedEach(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.run(w.queue(func(context.Context, *consumer.Message) error { return consumer.Permanent(errors.New("no")) }))
	for range 10 {
		w.publish("", "same")
	}
	byID := map[string]int{}
	rejections := map[any]bool{}
	for _, d := range w.dead(20) {
		byID[d.MessageId]++
		rejections[d.Headers[model.HeaderRejection]] = true
	}
	if byID[""] != 10 || byID["same"] != 10 || len(rejections) != 20 {
		t.Errorf("dead letters by id %v, %d rejections, want 10 each and 20", byID, len(rejections))
	}
	w.empty(r)
	if s := r.stats(); s.CopiesFailed != 0 {
		t.Errorf("%d copies failed", s.CopiesFailed)
	}
}

// What came back from the dead letters and fails again is a dead letter at once, with its lineage.
func TestReplayedMessageDoesNotClimbAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.run(w.queue(func(context.Context, *consumer.Message) error { return errors.New("still") }))
	w.publishAs(amqp.Publishing{MessageId: "m", Headers: amqp.Table{model.HeaderReplays: int64(2)}})
	letter := w.dead(1)[0]
	if h := letter.Headers; h[model.HeaderReplays] != int64(2) || h[model.HeaderCause] != model.CauseExhausted {
		t.Errorf("headers %v", h)
	}
	w.empty(r)
	if n := w.got.n(); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}
