package consumer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/consumer"
)

func failing(error) consumer.Handler {
	return func(_ context.Context, m *consumer.Message) error {
		if strings.HasPrefix(m.ID, "bad") {
			return errors.New("no")
		}
		return nil
	}
}

// K5: the dead-letter exchange is missing when a message fails for good. The original stays, the queue takes nothing
// new, there is one try in each backoff, health says what is missing; and when it is declared all goes on by itself.
func TestK5_MissingDeadLetterExchange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.client.DeleteExchange(deadName))
	q := w.queue(func(_ context.Context, m *consumer.Message) error {
		if strings.HasPrefix(m.ID, "bad") {
			return consumer.Permanent(errors.New("no"))
		}
		return nil
	})
	q.Handlers, q.Prefetch = 1, 10
	r := w.run(q)
	begin := time.Now()
	w.publish("bad")
	h := w.isState(r, consumer.StateStuck)
	if h.Healthy() || !strings.Contains(h.Reason, `"dead"`) {
		t.Errorf("health %+v, want unhealthy and the exchange named", h)
	}
	if got := r.stats().Stuck; len(got) != 1 || !strings.Contains(got[0], `exchange "dead"`) {
		t.Errorf("stuck on %q, want the exchange", got)
	}
	w.publish(names("good", 20)...)
	eventually(t, "three copies failed", func() bool { return r.stats().CopiesFailed >= 3 })
	tries, elapsed := r.stats().CopiesFailed, time.Since(begin)
	// 1, 2, 2, 2 s, each at least halved by its jitter.
	if limit := uint64(3 + elapsed/time.Second); tries > limit {
		t.Errorf("%d tries within %v, want at most %d", tries, elapsed, limit)
	}
	if n := w.got.n(); n != 1 {
		t.Errorf("%d handler calls while the copy is stuck, want the one", n)
	}
	must(t, w.client.Exchange(deadName, "fanout", nil))
	must(t, w.client.Bind(deadName, deadName, ""))
	if letter := w.dead(1)[0]; letter.MessageId != "bad" {
		t.Errorf("dead letter %q", letter.MessageId)
	}
	eventually(t, "the others are handled", func() bool { return r.stats().Handled == 20 })
	w.isState(r, consumer.StateConsuming)
	if got := r.stats().Stuck; len(got) != 0 {
		t.Errorf("stuck on %q after it was declared", got)
	}
	w.empty(r)
}

// A queue of the ladder is missing, then full: the copy is returned, then nacked, and nothing is lost or acked.
func TestMissingAndFullLadderQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.client.DeleteQueue(w.ladder.StepQueue(0)))
	r := w.run(w.queue(failing(nil)))
	w.publish("bad-1")
	if h := w.isState(r, consumer.StateStuck); !strings.Contains(h.Reason, w.ladder.StepQueue(0)) {
		t.Errorf("health %+v, want the queue named", h)
	}
	must(t, w.client.Step(w.ladder, 0))
	if letter := w.dead(1)[0]; letter.MessageId != "bad-1" {
		t.Errorf("dead letter %q", letter.MessageId)
	}
	w.isState(r, consumer.StateConsuming)
	w.empty(r)
	if n := len(w.got.of("bad-1")); n != 3 {
		t.Errorf("%d attempts, want 3: what cannot be copied costs none", n)
	}
}

// A message that is stuck goes back before the consumer timeout, and comes again.
func TestStuckMessageIsGivenBackInTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.client.DeleteQueue(w.ladder.StepQueue(0)))
	q := w.queue(failing(nil))
	q.ConsumerTimeout, q.Deadline, q.Prefetch, q.Handlers = 4*time.Second, 300*time.Millisecond, 10, 5
	r := w.run(q)
	w.publish("bad-1")
	eventually(t, "it was given back", func() bool { return r.stats().GivenBack >= 1 })
	must(t, w.client.Step(w.ladder, 0))
	eventually(t, "it was handled again", func() bool { return len(w.got.of("bad-1")) >= 2 })
	if m := w.got.of("bad-1")[1]; m.Attempt != 1 || !m.Redelivered {
		t.Errorf("attempt %d, redelivered %t: want the first again", m.Attempt, m.Redelivered)
	}
	w.dead(1)
	w.empty(r)
}

// The provider is away: no attempt, one message tries, health is down; the others wait or go back, and none is lost or
// dead.
func TestUnavailableCostsNoAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var away toggle
	away.set(true)
	q := w.queue(func(context.Context, *consumer.Message) error {
		if away.get() {
			return consumer.Unavailable(errors.New("provider: connection refused"))
		}
		return nil
	})
	w.publish(names("m", 60)...)
	r := w.run(q)
	if h := w.isState(r, consumer.StateUnavailable); h.Healthy() || !strings.Contains(h.Reason, "connection refused") {
		t.Errorf("health %+v", h)
	}
	eventually(t, "three tries were in vain", func() bool { return r.stats().Unavailable >= 10+2 || w.got.n() >= 4 })
	begin := w.got.n()
	since := time.Now()
	eventually(t, "further tries", func() bool { return w.got.n() >= begin+2 })
	if took := time.Since(since); took < 500*time.Millisecond {
		t.Errorf("two more tries within %v, want a backoff between them", took)
	}
	eventually(t, "only the message that tries is held", func() bool { return r.stats().Held == 1 })
	away.set(false)
	eventually(t, "all are handled", func() bool { return r.stats().Handled == 60 })
	w.isState(r, consumer.StateConsuming)
	w.empty(r)
	w.depth(deadName, 0)
	for _, m := range w.got.all {
		if m.Attempt != 1 {
			t.Fatalf("%s has attempt %d", m.ID, m.Attempt)
		}
	}
}

// Somebody else is at a message: it waits in our hands without an attempt, and the others pass it. K13: no handler call
// is open meanwhile.
func TestK13_BusyWaitsInPlaceWithNothingOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	q := w.queue(func(_ context.Context, m *consumer.Message) error {
		if m.ID == "busy" && len(w.got.of("busy")) < 3 {
			return consumer.Busy(errors.New("1205"))
		}
		return nil
	})
	q.Handlers, q.Prefetch = 1, 5
	w.publish("busy")
	r := w.run(q)
	eventually(t, "it is held", func() bool { return r.stats().Busy == 1 })
	w.publish(names("m", 20)...)
	eventually(t, "the others are handled", func() bool { return r.stats().Handled == 20 })
	if s := r.stats(); s.Held != 1 || s.InFlight != 0 {
		t.Errorf("%d held, %d in flight, want it held and no call open", s.Held, s.InFlight)
	}
	eventually(t, "it is handled", func() bool { return r.stats().Handled == 21 })
	for _, m := range w.got.of("busy") {
		if m.Attempt != 1 || m.Redelivered {
			t.Errorf("attempt %d, redelivered %t", m.Attempt, m.Redelivered)
		}
	}
	w.empty(r)
}

// An ordered queue retries in place: nothing overtakes, and what fails for good is a dead letter.
func TestOrderedQueueKeepsTheOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	q := w.queue(func(_ context.Context, m *consumer.Message) error {
		switch {
		case m.ID == "m-3" && m.Attempt < 3, m.ID == "m-5":
			return errors.New("no")
		}
		return nil
	})
	q.Ordered = true
	w.publish(names("m", 8)...)
	r := w.run(q)
	eventually(t, "all have their end", func() bool {
		s := r.stats()
		return s.Handled == 7 && s.DeadLettered == 1
	})
	want := "m-0 m-1 m-2 m-3 m-3 m-3 m-4 m-5 m-5 m-5 m-6 m-7"
	if got := strings.Join(w.got.order(), " "); got != want {
		t.Errorf("order %s, want %s", got, want)
	}
	if letter := w.dead(1)[0]; letter.MessageId != "m-5" {
		t.Errorf("dead letter %q", letter.MessageId)
	}
	w.empty(r)
}

// Pause and Resume, and a rate, are the operator's.
func TestPauseResumeAndRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.run(w.queue(nil))
	w.isState(r, consumer.StateConsuming)
	must(t, r.Pause(workQueue))
	if h := w.isState(r, consumer.StatePaused); !h.Healthy() {
		t.Errorf("health %+v: an operator wanted it", h)
	}
	eventually(t, "the consumer is gone", func() bool { return w.consumers() == 0 })
	w.publish(names("m", 30)...)
	w.depth(workQueue, 30)
	must(t, r.SetRate(workQueue, 20))
	begin := time.Now()
	must(t, r.Resume(workQueue))
	eventually(t, "all are handled", func() bool { return r.stats().Handled == 30 })
	if took := time.Since(begin); took < time.Second {
		t.Errorf("30 messages at 20 a second took %v", took)
	}
	if err := r.Pause("other"); err == nil {
		t.Error("paused a queue that is not consumed")
	}
	if err := r.SetRate(workQueue, -1); err == nil {
		t.Error("took a negative rate")
	}
}

// A stuck message went back, and whoever gets it then needs no copy: the queue goes on once the missing queue is there,
// though no copy proves it.
func TestQueueGoesOnWithoutACopyThatProvesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.client.DeleteQueue(w.ladder.StepQueue(0)))
	var failed toggle
	q := w.queue(func(context.Context, *consumer.Message) error {
		if !failed.get() {
			failed.set(true)
			return errors.New("once")
		}
		return nil
	})
	q.ConsumerTimeout, q.Deadline, q.Prefetch, q.Handlers = 4*time.Second, 300*time.Millisecond, 10, 5
	r := w.run(q)
	w.publish("m")
	eventually(t, "it was given back", func() bool { return r.stats().GivenBack >= 1 })
	w.publish(names("n", 10)...)
	if h := w.isState(r, consumer.StateStuck); h.Healthy() || w.got.n() != 1 {
		t.Errorf("health %+v, %d calls: want nothing taken", h, w.got.n())
	}
	must(t, w.client.Step(w.ladder, 0))
	eventually(t, "all are handled", func() bool { return r.stats().Handled == 11 })
	w.isState(r, consumer.StateConsuming)
}
