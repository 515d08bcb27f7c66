package confirms_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

func TestAckedMessagesAreInTheQueue(t *testing.T) {
	t.Parallel()
	url := amqptest.VHost(t)
	c := amqptest.Connect(t, url)
	queueOn(t, c, "ex", "q", "k")
	cfg := configFor(t, url)
	cfg.Channels = 3
	s := open(t, cfg)
	r := newResults(t)
	const n = 3000
	for range n {
		r.send(s, message(t, "ex", "k"))
	}
	r.wait()
	r.wantAll(map[string]int{"acked": n})
	got := ids(t, c, "q")
	for id := range r.byID {
		if got[id] != 1 {
			t.Fatalf("message %s is %d times in the queue", id, got[id])
		}
	}
	if st := s.Stats(); st.Pending != 0 || st.PendingBytes != 0 || st.InFlight != 0 || st.Acked != n {
		t.Errorf("stats after all are done: %+v", st)
	}
}

func TestC01_ReturnedIsNeverAcked(t *testing.T) {
	t.Parallel()
	url := amqptest.VHost(t)
	c := amqptest.Connect(t, url)
	queueOn(t, c, "ex", "q", "k")
	s := open(t, configFor(t, url))
	r := newResults(t)
	const n = 5000
	for i := range n {
		key := "nope"
		if i%5 == 0 {
			key = "k"
		}
		r.send(s, message(t, "ex", key))
	}
	r.wait()
	r.wantAll(map[string]int{"acked": n / 5, "returned 312": n * 4 / 5})
	if got := len(ids(t, c, "q")); got != n/5 {
		t.Errorf("queue has %d messages, want %d", got, n/5)
	}
}

func TestAllowUnroutableIsAckedWithoutQueue(t *testing.T) {
	t.Parallel()
	url := amqptest.VHost(t)
	must(t, amqptest.Connect(t, url).Exchange("ex", "fanout", nil))
	s := open(t, configFor(t, url))
	r := newResults(t)
	m := message(t, "ex", "")
	m.AllowUnroutable = true
	id := r.send(s, m)
	r.wait()
	r.want(id, model.Acked, "")
}

func TestC03_MissingExchangeChargesItsOwnSendsAlone(t *testing.T) {
	t.Parallel()
	url := amqptest.VHost(t)
	c := amqptest.Connect(t, url)
	queueOn(t, c, "ex", "q", "k")
	s := open(t, configFor(t, url))
	r := newResults(t)
	var bad []string
	for i := range 500 {
		if i == 250 || i == 499 {
			bad = append(bad, r.send(s, message(t, "noex", "k")))
		}
		r.send(s, message(t, "ex", "k"))
	}
	r.wait()
	tally := r.tally()
	if tally["acked"] != 500 || tally["refused 404"] == 0 || tally["refused 404"]+tally["deferred 404"] != 2 {
		t.Errorf("outcomes: %v, want 500 acked, one or both of the others refused, and else deferred", tally)
	}
	for _, id := range bad {
		if o := r.outcome(id); o.Permanent || !strings.Contains(o.Text, "noex") {
			t.Errorf("outcome %+v: want the broker's text and not permanent", o)
		}
	}
	if st := s.Stats(); st.Generation != 1 {
		t.Errorf("generation %d, want the first connection still", st.Generation)
	}
}

func TestC03_ExchangeDeletedUnderSends(t *testing.T) {
	t.Parallel()
	url := amqptest.VHost(t)
	c := amqptest.Connect(t, url)
	queueOn(t, c, "ex", "q", "k")
	queueOn(t, c, "doomed", "q2", "k")
	s := open(t, configFor(t, url))
	r := newResults(t)
	r.send(s, message(t, "doomed", "k"))
	r.wait() // its exchange is known from now on
	must(t, c.DeleteExchange("doomed"))
	var doomed []string
	for i := range 500 {
		if i == 250 {
			doomed = append(doomed, r.send(s, message(t, "doomed", "k")))
		}
		r.send(s, message(t, "ex", "k"))
	}
	r.wait()
	tally := r.tally()
	if tally["acked"]+tally["unknown closed"] != 501 || tally["unknown suspect"] != 1 {
		t.Fatalf("outcomes: %v", tally)
	}
	r.want(doomed[0], model.Unknown, model.CodeSuspect)
	queued := ids(t, c, "q")
	for id, o := range r.byID {
		if o.Kind == model.Acked && queued[id] == 0 && r.order[0] != id {
			t.Errorf("acked message %s is not in the queue", id)
		}
	}
	// The suspect goes alone, and neighbours feel nothing of it.
	again := newResults(t)
	must(t, s.WaitReady(testCtx(t)))
	id := again.send(s, message(t, "doomed", "k"), alone)
	for range 100 {
		again.send(s, message(t, "ex", "k"))
	}
	again.wait()
	again.want(id, model.Refused, model.CodeNotFound)
	again.wantAll(map[string]int{"acked": 100, "refused 404": 1})
	if st := s.Stats(); st.Generation != 1 {
		t.Errorf("generation %d, want the first connection still", st.Generation)
	}
}

func TestQuarantinePinsTheCause(t *testing.T) {
	t.Parallel()
	url := amqptest.VHost(t)
	c := amqptest.Connect(t, url)
	queueOn(t, c, "ex", "q", "k")
	must(t, c.InternalExchange("inner", "direct"))
	s := open(t, configFor(t, url))
	r := newResults(t)
	inner := r.send(s, message(t, "inner", "k"), alone)
	good := r.send(s, message(t, "ex", "k"), alone)
	lost := r.send(s, message(t, "ex", "nope"), alone)
	r.wait()
	r.want(inner, model.Refused, model.CodeAccessRefused)
	r.want(good, model.Acked, "")
	r.want(lost, model.Returned, model.CodeNoRoute)
	if r.outcome(inner).Permanent {
		t.Error("403 must not be permanent: permissions can be given")
	}
}

func TestC07_NackOnAFullQueue(t *testing.T) {
	t.Parallel()
	url := amqptest.VHost(t)
	c := amqptest.Connect(t, url)
	must(t, c.Exchange("ex", "direct", nil), c.Queue(amqptest.QueueSpec{
		Name: "q", Args: amqp.Table{"x-max-length": 2, "x-overflow": "reject-publish"},
	}), c.Bind("q", "ex", "k"))
	s := open(t, configFor(t, url))
	r := newResults(t)
	for range 6 {
		r.send(s, message(t, "ex", "k"))
		r.wait()
	}
	r.wantAll(map[string]int{"acked": 2, "nacked nack": 4})
}

func TestC08_MessagesArePersistent(t *testing.T) {
	t.Parallel()
	url := amqptest.VHost(t)
	c := amqptest.Connect(t, url)
	queueOn(t, c, "ex", "q", "k")
	s := open(t, configFor(t, url))
	r := newResults(t)
	r.send(s, message(t, "ex", "k"))
	r.wait()
	got, err := c.Drain("q")
	must(t, err)
	if len(got) != 1 || got[0].DeliveryMode != amqp.Persistent {
		t.Errorf("got %+v, want one persistent message", got)
	}
}

func TestC16_C22_C23_PoisonIsRefusedBeforeTheWire(t *testing.T) {
	t.Parallel()
	url := amqptest.VHost(t)
	c := amqptest.Connect(t, url)
	queueOn(t, c, "ex", "q", "k")
	s := open(t, configFor(t, url))
	r := newResults(t)
	for name, spoil := range map[string]func(*model.Message){
		"key of 256 bytes":      func(m *model.Message) { m.RoutingKey = strings.Repeat("k", 256) },
		"344 bytes in 86 runes": func(m *model.Message) { m.RoutingKey = strings.Repeat("\U0001F600", 86) },
		"headers over a frame": func(m *model.Message) {
			m.Headers = map[string]any{"big": strings.Repeat("x", 140_000)}
		},
		"expiration":        func(m *model.Message) { m.Properties.Expiration = "1h" },
		"user id":           func(m *model.Message) { m.Properties.UserID = "somebody" },
		"header of no type": func(m *model.Message) { m.Headers = map[string]any{"d": struct{}{}} },
	} {
		m := message(t, "ex", "k")
		spoil(m)
		id := r.send(s, m)
		eventually(t, name, func() bool { return r.outcome(id).Kind != 0 })
		if o := r.outcome(id); o.Kind != model.Refused || o.Code != model.CodeInvalid || !o.Permanent {
			t.Errorf("%s: got %+v, want a permanent refusal as invalid", name, o)
		}
	}
	m := message(t, "ex", "k")
	m.Headers = map[string]any{"big": strings.Repeat("x", 130_000)}
	id := r.send(s, m)
	r.wait()
	r.want(id, model.Acked, "")
	if st := s.Stats(); st.Generation != 1 {
		t.Errorf("generation %d, want the first connection still", st.Generation)
	}
}

func TestSameIDInFlightIsDeferred(t *testing.T) {
	t.Parallel()
	url := amqptest.VHost(t)
	queueOn(t, amqptest.Connect(t, url), "ex", "q", "k")
	s := open(t, configFor(t, url))
	m := message(t, "ex", "k")
	first, second := newResults(t), newResults(t)
	must(t, s.Reserve(testCtx(t), 2, 2*int64(len(m.Body))))
	first.sendReserved(s, m)
	second.sendReserved(s, m)
	first.wait()
	second.wait()
	// The second is deferred while the first is in flight; a broker that was faster
	// than the sender may have acked the first before.
	if o := second.outcome(m.ID); o.Kind != model.Deferred && o.Kind != model.Acked {
		t.Errorf("second send of one id: %s", o)
	}
	first.want(m.ID, model.Acked, "")
}

func TestTooLateIsNotSent(t *testing.T) {
	t.Parallel()
	url := amqptest.VHost(t)
	c := amqptest.Connect(t, url)
	queueOn(t, c, "ex", "q", "k")
	s := open(t, configFor(t, url))
	r := newResults(t)
	late := r.send(s, message(t, "ex", "k"), func(p *confirms.Send) {
		p.Since, p.Within = time.Now().Add(-time.Minute), time.Second
	})
	unbounded := r.send(s, message(t, "ex", "k"), func(p *confirms.Send) { p.Since = time.Now().Add(-time.Minute) })
	r.wait()
	r.want(late, model.Deferred, model.CodeNotSent)
	r.want(unbounded, model.Acked, "")
	if got := ids(t, c, "q"); got[late] != 0 {
		t.Error("the late message was sent")
	}
}

func TestReserveIsBounded(t *testing.T) {
	t.Parallel()
	url := amqptest.VHost(t)
	cfg := configFor(t, url)
	cfg.Window, cfg.MaxPending, cfg.WindowBytes, cfg.MaxPendingBytes = 10, 10, 100, 100
	s := open(t, cfg)
	if !s.TryReserve(9, 90) {
		t.Fatal("no room in an idle sender")
	}
	for _, over := range []struct {
		n     int
		bytes int64
	}{{2, 0}, {0, 11}} {
		if s.TryReserve(over.n, over.bytes) {
			t.Errorf("reserved %+v beyond the bounds", over)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := s.Reserve(ctx, over.n, over.bytes); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("reserve beyond the bounds: %v", err)
		}
		cancel()
	}
	if err := s.Reserve(t.Context(), 11, 0); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("reserve more than ever fits: %v", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- s.Reserve(testCtx(t), 5, 50) }()
	s.Release(9, 90)
	must(t, <-waited)
	s.Release(5, 50)
	if st := s.Stats(); st.Pending != 0 || st.PendingBytes != 0 {
		t.Errorf("pending after all is released: %+v", st)
	}
}

func TestC24_CloseDrains(t *testing.T) {
	t.Parallel()
	url := amqptest.VHost(t)
	c := amqptest.Connect(t, url)
	queueOn(t, c, "ex", "q", "k")
	s := open(t, configFor(t, url))
	r := newResults(t)
	const n = 2000
	for range n {
		r.send(s, message(t, "ex", "k"))
	}
	must(t, s.Close(testCtx(t)))
	if r.count() != n {
		t.Fatalf("%d outcomes of %d when Close returned", r.count(), n)
	}
	r.wantAll(map[string]int{"acked": n})
	if s.Ready() || s.TryReserve(1, 1) {
		t.Error("ready after Close")
	}
	if err := s.Reserve(t.Context(), 1, 1); !errors.Is(err, model.ErrClosed) {
		t.Errorf("reserve after Close: %v", err)
	}
	late := r.sendReserved(s, message(t, "ex", "k"))
	r.wait()
	r.want(late, model.Deferred, model.CodeNotSent)
	must(t, s.Close(testCtx(t)))
}
