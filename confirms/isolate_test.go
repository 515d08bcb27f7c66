package confirms_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/scriptedbroker"
	"github.com/transmsg/transmsg/model"
)

// streamPoison is a message that passes every check and that this broker answers by
// closing the connection with 541: a stream queue cannot store a decimal in a header.
func streamPoison(t *testing.T, c *amqptest.Client) *model.Message {
	t.Helper()
	must(t, c.Queue(amqptest.QueueSpec{Name: "st", Args: amqp.Table{"x-queue-type": "stream"}}))
	m := message(t, "", "st")
	m.Headers = map[string]any{"price": model.Decimal{Scale: 2, Value: 5}}
	return m
}

func TestC16_ConnectionPoisonIsPinned(t *testing.T) {
	t.Parallel()
	url := amqptest.VHost(t)
	c := amqptest.Connect(t, url)
	queueOn(t, c, "ex", "q", "k")
	poison := streamPoison(t, c)
	s := open(t, configFor(t, url))
	r := newResults(t)
	for i := range 200 {
		if i == 100 {
			r.send(s, poison)
		}
		r.send(s, message(t, "ex", "k"))
	}
	r.wait()
	r.want(poison.ID, model.Unknown, model.CodeSuspect)
	eventually(t, "the loss of the connection", func() bool { return s.Stats().Generation == 2 && s.Ready() })

	// Alone it is the cause, and neither neighbours nor other suspects feel anything of it.
	again := newResults(t)
	for i := range 200 {
		if i == 100 {
			again.send(s, poison, alone)
			again.send(s, message(t, "ex", "k"), alone)
		}
		again.send(s, message(t, "ex", "k"))
	}
	again.wait()
	again.wantAll(map[string]int{"acked": 201, "refused refused-other": 1})
	if o := again.outcome(poison.ID); o.Permanent || !strings.Contains(o.Text, "541") {
		t.Errorf("poison alone: %+v, want the broker's code and not permanent", o)
	}
	if got := s.Stats().Generation; got != 2 {
		t.Errorf("generation %d, want the second publishing connection still", got)
	}
}

// isolated sends a message alone and returns it as the peer got it.
func isolated(t *testing.T, s *confirms.Sender, r *results, p *scriptedbroker.Peer) *scriptedbroker.Publish {
	t.Helper()
	r.send(s, message(t, "x", model.NewID()), alone) // a route of its own: none waits for another
	return next(t, p)
}

func TestQuarantineSendsOneAtATime(t *testing.T) {
	t.Parallel()
	s, p, _ := scripted(t)
	r := newResults(t)
	normal := take(t, s, r, p, "x", 1)[0]
	var ids []string
	for range 3 {
		ids = append(ids, r.send(s, message(t, "x", "k"), alone))
	}
	for i, id := range ids {
		m := next(t, p)
		if m.MessageID != id || m.Conn == normal.Conn {
			t.Fatalf("want %s on a connection of its own, got %s", id, m.MessageID)
		}
		// Whoever sends two at a time has sent the next one by the time this is answered.
		fence := take(t, s, r, p, "x", 1)[0]
		if fence.Conn != normal.Conn {
			t.Fatal("two suspects at a time")
		}
		must(t, fence.Ack(false))
		if i == 1 {
			must(t, m.Conn.CloseChannel(m.Channel, 405, "RESOURCE_LOCKED"))
			continue
		}
		must(t, m.Ack(false))
	}
	must(t, normal.Ack(false))
	r.wait()
	r.wantAll(map[string]int{"acked": 6, "refused refused-other": 1})
	r.want(ids[1], model.Refused, model.CodeOther)
}

func TestSuspectThatEndsItsConnectionIsTheCause(t *testing.T) {
	t.Parallel()
	for _, code := range []uint16{501, 504, 505, 541} {
		s, p, _ := scripted(t)
		r, neighbours := newResults(t), newResults(t)
		in := take(t, s, neighbours, p, "x", 3)
		m := isolated(t, s, r, p)
		must(t, m.Conn.Close(code, "for what was sent"))
		r.wait()
		r.wantAll(map[string]int{"refused refused-other": 1})
		if o := r.outcome(m.MessageID); o.Permanent {
			t.Errorf("%d: %+v, want not permanent", code, o)
		}
		must(t, in[2].Ack(true))
		neighbours.wait()
		neighbours.wantAll(map[string]int{"acked": 3})
		if st := s.Stats(); st.Generation != 1 || !st.Ready {
			t.Errorf("%d: %+v, want the first publishing connection ready", code, st)
		}
	}
}

func TestSuspectStaysOneWhenItsConnectionEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*scriptedbroker.Conn) error{
		"operator": func(c *scriptedbroker.Conn) error { return c.Close(320, "CONNECTION_FORCED") },
		"network":  func(c *scriptedbroker.Conn) error { c.Cut(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p, _ := scripted(t)
			r := newResults(t)
			m := isolated(t, s, r, p)
			must(t, end(m.Conn))
			r.wait()
			r.wantAll(map[string]int{"unknown suspect": 1})
			must(t, isolated(t, s, r, p).Ack(false))
			r.wait()
			r.wantAll(map[string]int{"acked": 1, "unknown suspect": 1})
		})
	}
}

// TestOverdueSuspectLeavesTheCauseOpen: the one that the broker never answered may be why
// it ended the connection, so the one after it is not charged.
func TestOverdueSuspectLeavesTheCauseOpen(t *testing.T) {
	t.Parallel()
	s, p, _ := scripted(t, func(c *confirms.Config) { c.ConfirmTimeout = 2 * time.Second })
	r := newResults(t)
	first := isolated(t, s, r, p)
	r.wait()
	r.want(first.MessageID, model.Unknown, model.CodeTimeout)
	if !s.Ready() {
		t.Error("an overdue suspect makes publishing unready")
	}
	second := isolated(t, s, r, p)
	if second.Conn != first.Conn || second.Channel == first.Channel {
		t.Fatal("want another channel of the same connection")
	}
	must(t, second.Conn.Close(541, "INTERNAL_ERROR"))
	r.wait()
	r.want(second.MessageID, model.Unknown, model.CodeSuspect)
}

func TestConnectionOfSuspectsIsClosedWhenIdle(t *testing.T) {
	t.Parallel()
	s, p, conn := scripted(t)
	r := newResults(t)
	m := isolated(t, s, r, p)
	if m.Conn == conn {
		t.Fatal("a suspect shares the publishing connection")
	}
	must(t, m.Ack(false))
	more := isolated(t, s, r, p)
	if more.Conn != m.Conn {
		t.Error("a connection for each suspect")
	}
	must(t, more.Ack(false))
	select {
	case <-m.Conn.Done():
	case <-testCtx(t).Done():
		t.Fatal("the idle connection stays open")
	}
	must(t, isolated(t, s, r, p).Ack(false))
	r.wait()
	r.wantAll(map[string]int{"acked": 3})
	if got := s.Stats().Generation; got != 1 {
		t.Errorf("generation %d, want 1", got)
	}
}

func TestC27_BlockedConnectionOfSuspectsDefersThem(t *testing.T) {
	t.Parallel()
	s, p, _ := scripted(t, func(c *confirms.Config) { c.ConfirmTimeout = 300 * time.Millisecond })
	r := newResults(t)
	m := isolated(t, s, r, p)
	must(t, m.Conn.Blocked("low on memory"))
	waiting := newResults(t)
	eventually(t, "suspects deferred", func() bool {
		waiting.sendReserved(s, message(t, "x", "k"), alone)
		return waiting.count() > 0
	})
	waiting.wait()
	waiting.wantAll(map[string]int{"deferred not-sent": waiting.sent})
	if !s.Ready() {
		t.Error("publishing is held up too")
	}
	must(t, m.Conn.Unblocked(), m.Ack(false))
	r.wait()
	r.wantAll(map[string]int{"acked": 1})
}

func TestSuspectsAreDeferredWithoutAConnection(t *testing.T) {
	t.Parallel()
	cfg, p, _ := proxied(t)
	s := open(t, cfg)
	p.Refuse(true)
	r := newResults(t)
	id := r.send(s, message(t, "ex", "k"), alone)
	r.wait()
	r.want(id, model.Deferred, model.CodeNotSent)
	if o := r.outcome(id); !strings.Contains(o.Text, "no connection for suspects") {
		t.Errorf("text %q", o.Text)
	}
	p.Refuse(false)
	id = r.send(s, message(t, "ex", "k"), alone)
	r.wait()
	r.want(id, model.Acked, "")
}

// TestNothingWaitsForAChannelThatCannotBeOpened: the only channel of the connection is
// retired and still waits for its ack.
func TestNothingWaitsForAChannelThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	s, p, _ := scriptedBy(t, scriptedbroker.Options{ChannelMax: 1}, func(c *confirms.Config) {
		c.ConfirmTimeout = 4 * time.Second
	})
	r := newResults(t)
	old := overdue(t, s, r, p)
	id := r.sendReserved(s, message(t, "", "k"))
	r.wait()
	r.want(id, model.Deferred, model.CodeNotSent)
	must(t, old[1].Ack(true))
	must(t, s.WaitReady(testCtx(t)))
	if st := s.Stats(); st.Generation != 1 || r.lateAcks() != 2 {
		t.Errorf("%d late acks in generation %d, want 2 in 1", r.lateAcks(), st.Generation)
	}
}

// TestCloseWaitsForTheOutcomesOfRefusedSends: a send that comes while Close drains is told
// by a goroutine that ends before Close returns, also when Close's time is over.
func TestCloseWaitsForTheOutcomesOfRefusedSends(t *testing.T) {
	t.Parallel()
	s, p, _ := scripted(t)
	r := newResults(t)
	take(t, s, r, p, "x", 1)
	ctx, cancel := contextWithTimeout(t, patience)
	closed := make(chan error, 1)
	go func() { closed <- s.Close(ctx) }()
	eventually(t, "closing", func() bool { return !s.Ready() })
	late := &lateHandler{}
	late.r, late.id = r, model.NewID()
	r.sendReserved(s, message(t, "x", "k"), func(p *confirms.Send) { p.Handler = late })
	cancel()
	if err := <-closed; !isNotDrained(err) {
		t.Errorf("close: %v, want not drained", err)
	}
	if !late.done.Load() {
		t.Error("Close returned before Done did")
	}
}

type lateHandler struct {
	handler
	done atomic.Bool
}

func (h *lateHandler) Done(o model.Outcome) {
	<-time.After(2 * time.Second) // the fault itself
	h.handler.Done(o)
	h.done.Store(true)
}
