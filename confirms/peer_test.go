package confirms_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/scriptedbroker"
	"github.com/transmsg/transmsg/model"
)

// scripted returns a sender connected to a peer that confirms nothing by itself.
func scripted(
	t *testing.T, edit ...func(*confirms.Config),
) (*confirms.Sender, *scriptedbroker.Peer, *scriptedbroker.Conn) {
	t.Helper()
	return scriptedBy(t, scriptedbroker.Options{}, edit...)
}

func scriptedBy(t *testing.T, options scriptedbroker.Options, edit ...func(*confirms.Config)) (
	*confirms.Sender, *scriptedbroker.Peer, *scriptedbroker.Conn,
) {
	t.Helper()
	p, err := scriptedbroker.New(options)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	cfg := configFor(t, p.URL())
	for _, f := range edit {
		f(&cfg)
	}
	s := open(t, cfg)
	conn, err := p.NextConn(testCtx(t))
	must(t, err)
	return s, p, conn
}

func next(t *testing.T, p *scriptedbroker.Peer) *scriptedbroker.Publish {
	t.Helper()
	m, err := p.NextPublish(testCtx(t))
	must(t, err)
	return m
}

// take sends n messages to an exchange and returns them as the peer got them.
func take(
	t *testing.T, s *confirms.Sender, r *results, p *scriptedbroker.Peer, exchange string, n int,
) []*scriptedbroker.Publish {
	t.Helper()
	for range n {
		r.send(s, message(t, exchange, "k"))
	}
	got := make([]*scriptedbroker.Publish, n)
	for i := range got {
		got[i] = next(t, p)
	}
	return got
}

func TestC01_ReturnsBeforeACoalescedAck(t *testing.T) {
	t.Parallel()
	s, p, _ := scripted(t)
	r := newResults(t)
	m := take(t, s, r, p, "x", 6)
	must(t, m[1].Return(312, "NO_ROUTE"), m[4].Return(312, "NO_ROUTE"), m[5].Ack(true))
	r.wait()
	for i := range m {
		if i == 1 || i == 4 {
			r.want(m[i].MessageID, model.Returned, model.CodeNoRoute)
		} else {
			r.want(m[i].MessageID, model.Acked, "")
		}
	}
}

func TestC04_NackOnAnOpenChannelAndCloseAreTwoThings(t *testing.T) {
	t.Parallel()
	s, p, conn := scripted(t)
	r := newResults(t)
	m := take(t, s, r, p, "x", 3)
	must(t, m[1].Nack(false))
	eventually(t, "the nack, past the stuck first", func() bool { return r.count() == 1 })
	r.want(m[1].MessageID, model.Nacked, model.CodeNack)
	must(t, conn.CloseChannel(m[0].Channel, 404, "NOT_FOUND - no exchange 'x' in vhost '/'"))
	r.wait()
	r.wantAll(map[string]int{"nacked nack": 1, "unknown suspect": 2})
}

// TestC04_NackJustBeforeAClose: whichever is seen first, it is never an ack, and what is
// certain before the close still counts.
func TestC04_WhatCameBeforeTheCloseCounts(t *testing.T) {
	t.Parallel()
	s, p, conn := scripted(t)
	for range 200 {
		r := newResults(t)
		m := take(t, s, r, p, "x", 4)
		must(t, m[2].Return(312, "NO_ROUTE"), m[1].Ack(false), m[0].Nack(false),
			conn.CloseChannel(m[0].Channel, 406, "PRECONDITION_FAILED - whatever"))
		r.wait()
		if o := r.outcome(m[0].MessageID); o.Kind != model.Nacked && o.Kind != model.Unknown {
			t.Fatalf("nacked just before the close: %s", o)
		}
		r.want(m[1].MessageID, model.Acked, "")
		r.want(m[2].MessageID, model.Returned, model.CodeNoRoute)
		r.want(m[3].MessageID, model.Unknown, model.CodeSuspect)
		must(t, s.WaitReady(testCtx(t)))
	}
	if st := s.Stats(); st.Generation != 1 {
		t.Errorf("generation %d, want the first connection still", st.Generation)
	}
}

func TestC03_OnlySendsToTheNamedExchangeAreSuspect(t *testing.T) {
	t.Parallel()
	all := map[string]bool{"a": true, "b": true, "": true}
	for name, c := range map[string]struct {
		code    uint16
		text    string
		suspect map[string]bool
	}{
		"404 names one": {404, "NOT_FOUND - no exchange 'a' in vhost '/'", map[string]bool{"a": true}},
		"403 names one": {
			403, "ACCESS_REFUSED - write access to exchange 'b' in vhost '/' refused for user 'u'",
			map[string]bool{"b": true},
		},
		"403 names default": {
			403, "ACCESS_REFUSED - access to exchange 'amq.default' in vhost '/' refused for user 'u'",
			map[string]bool{"": true},
		},
		"404 cut short":  {404, "NOT_FOUND - no exchange 'aaaaaaaa", all},
		"406 names none": {406, "PRECONDITION_FAILED - invalid message", all},
		"406 by size":    {406, "PRECONDITION_FAILED - message size 4 is larger than configured max size 1", all},
		"405":            {405, "RESOURCE_LOCKED", all},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p, conn := scripted(t)
			r := newResults(t)
			var last *scriptedbroker.Publish
			exchangeOf := map[string]string{}
			for _, exchange := range []string{"a", "b", ""} {
				for _, m := range take(t, s, r, p, exchange, 2) {
					exchangeOf[m.MessageID], last = exchange, m
				}
			}
			must(t, conn.CloseChannel(last.Channel, c.code, c.text))
			r.wait()
			for id, exchange := range exchangeOf {
				code := model.CodeClosed
				if c.suspect[exchange] {
					code = model.CodeSuspect
				}
				r.want(id, model.Unknown, code)
			}
			// Each exchange was asked for once; only one that was named is asked for again.
			must(t, s.WaitReady(testCtx(t)))
			for _, exchange := range []string{"a", "b"} {
				must(t, take(t, s, newResults(t), p, exchange, 1)[0].Ack(false))
				want := 1
				if c.suspect[exchange] {
					want = 2
				}
				if got := p.Declares(exchange); got != want {
					t.Errorf("exchange %s was asked for %d times, want %d", exchange, got, want)
				}
			}
			if p.Declares("") != 0 {
				t.Error("the default exchange was asked for")
			}
		})
	}
}

func TestConnectionCloseIsUnknown(t *testing.T) {
	t.Parallel()
	for code, want := range map[uint16]string{
		320: "unknown closed", 530: "unknown closed", 501: "unknown suspect", 502: "unknown suspect",
		503: "unknown suspect", 504: "unknown suspect", 505: "unknown suspect", 506: "unknown suspect",
		540: "unknown suspect", 541: "unknown suspect",
	} {
		s, p, conn := scripted(t)
		r := newResults(t)
		take(t, s, r, p, "x", 3)
		must(t, conn.Close(code, "end of it"))
		r.wait()
		r.wantAll(map[string]int{want: 3})
		must(t, s.WaitReady(testCtx(t)))
		if got := s.Stats().Generation; got != 2 {
			t.Errorf("generation %d after the close, want 2", got)
		}
		// A new connection knows nothing of the old one's exchanges.
		take(t, s, r, p, "x", 1)
		if got := p.Declares("x"); got != 2 {
			t.Errorf("exchange asked for %d times on two connections", got)
		}
	}
}

func TestC27_BlockedClosesTheGateAtOnceAndStopsTheTimers(t *testing.T) {
	t.Parallel()
	s, p, conn := scripted(t, func(c *confirms.Config) {
		c.Window, c.ConfirmTimeout = 2, 300*time.Millisecond
	})
	r := newResults(t)
	for range 6 {
		r.send(s, message(t, "x", "k"))
	}
	first, second := next(t, p), next(t, p)
	must(t, conn.Blocked("low on memory"))
	eventually(t, "what waits is deferred", func() bool { return r.count() == 4 })
	r.wantAll(map[string]int{"deferred not-sent": 4})
	// Nothing passes a closed gate, whoever takes it from the queue.
	for range 200 {
		r.sendReserved(s, message(t, "", "k"))
	}
	eventually(t, "all that is sent meanwhile is deferred", func() bool { return r.count() == 204 })
	<-time.After(time.Second) // three confirm timeouts
	if r.count() != 204 {
		t.Fatalf("outcomes while blocked: %v", r.tally())
	}
	must(t, conn.Unblocked())
	must(t, s.WaitReady(testCtx(t)))
	must(t, first.Ack(false), second.Ack(false))
	r.wait()
	r.wantAll(map[string]int{"acked": 2, "deferred not-sent": 204})
	id := r.send(s, message(t, "x", "k"))
	must(t, next(t, p).Ack(false))
	r.wait()
	r.want(id, model.Acked, "")
}

func TestC09_StuckOldestHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	s, p, _ := scripted(t)
	r := newResults(t)
	m := take(t, s, r, p, "x", 300)
	for _, one := range m[1:] {
		must(t, one.Ack(false))
	}
	eventually(t, "the others", func() bool { return r.count() == 299 })
	if o := r.outcome(m[0].MessageID); o.Kind != 0 {
		t.Errorf("the stuck one: %s", o)
	}
	must(t, m[0].Ack(false))
	r.wait()
	r.wantAll(map[string]int{"acked": 300})
}

func TestC30_TooManyRetiredChannelsCostTheConnection(t *testing.T) {
	t.Parallel()
	s, _, conn := scripted(t, func(c *confirms.Config) {
		c.Channels, c.Window, c.ConfirmTimeout = 3, 2, 300*time.Millisecond
	})
	r := newResults(t)
	eventually(t, "three channels", func() bool { return conn.Channels() >= 3 })
	for i := range 6 { // two routes on each channel, or a route would be to blame
		r.send(s, message(t, "", fmt.Sprint("k", i)))
	}
	select {
	case <-conn.Done():
	case <-testCtx(t).Done():
		t.Fatal("the connection lives with three channels overdue")
	}
	r.wait()
	r.wantAll(map[string]int{"unknown timeout": 6})
	must(t, s.WaitReady(testCtx(t)))
}

// overdue sends to two routes and waits until both are overdue: it is the channel that
// answers nothing.
func overdue(t *testing.T, s *confirms.Sender, r *results, p *scriptedbroker.Peer) []*scriptedbroker.Publish {
	t.Helper()
	r.send(s, message(t, "", "a"))
	r.send(s, message(t, "", "b"))
	got := []*scriptedbroker.Publish{next(t, p), next(t, p)}
	r.wait()
	r.wantAll(map[string]int{"unknown timeout": 2})
	eventually(t, "not ready", func() bool { return !s.Ready() })
	return got
}

func TestTimedOutSendLeavesTheChannelAndComesBackLate(t *testing.T) {
	t.Parallel()
	s, p, conn := scripted(t, func(c *confirms.Config) { c.ConfirmTimeout = 400 * time.Millisecond })
	r := newResults(t)
	old := overdue(t, s, r, p)
	if s.Ready() || s.TryReserve(1, 1) {
		t.Error("ready with an overdue confirm")
	}
	// What is sent all the same goes through another channel, and the same id may.
	again := newResults(t)
	m := message(t, "", "other")
	m.ID = old[0].MessageID
	again.sendReserved(s, m)
	retry := next(t, p)
	if retry.Channel == old[0].Channel {
		t.Error("sent on the retired channel")
	}
	must(t, retry.Ack(false), old[1].Ack(true))
	again.wait()
	again.want(m.ID, model.Acked, "")
	eventually(t, "the late ack", func() bool { return r.lateAcks() == 2 })
	must(t, s.WaitReady(testCtx(t)))
	eventually(t, "the retired channel closed", func() bool { return conn.Channels() == 1 })
}

func TestSameIDInFlightOnTheChannelIsDeferred(t *testing.T) {
	t.Parallel()
	s, p, _ := scripted(t)
	first, second := newResults(t), newResults(t)
	m := take(t, s, first, p, "x", 1)[0]
	again := message(t, "x", "k")
	again.ID = m.MessageID
	second.send(s, again)
	second.wait()
	second.want(m.MessageID, model.Deferred, model.CodeNotSent)
	must(t, m.Ack(false))
	first.wait()
	first.want(m.MessageID, model.Acked, "")
}

func TestMissingExchangeIsRememberedForAMomentOnly(t *testing.T) {
	t.Parallel()
	s, p, _ := scripted(t, func(c *confirms.Config) { c.ProbeDelay = 100 * time.Millisecond })
	p.SetMissing("gone", true)
	r := newResults(t)
	for range 50 {
		r.send(s, message(t, "gone", "k"))
	}
	r.wait()
	tally := r.tally()
	if refused := tally["refused 404"]; refused == 0 || refused+tally["deferred 404"] != 50 {
		t.Errorf("outcomes: %v, want 50 of 404, refused or waiting for a probe", tally)
	}
	if n := p.Declares("gone"); n > 5 {
		t.Errorf("asked %d times within a moment", n)
	}
	p.SetMissing("gone", false)
	eventually(t, "the exchange found", func() bool {
		m := message(t, "gone", "k")
		r.send(s, m)
		r.mu.Lock()
		defer r.mu.Unlock()
		return p.Declares("gone") > 1 && r.byID[m.ID].Kind == 0
	})
	must(t, next(t, p).Ack(true))
}

func TestCloseWithOpenSendsTellsUnknown(t *testing.T) {
	t.Parallel()
	s, p, _ := scripted(t, func(c *confirms.Config) { c.Window = 3 })
	r := newResults(t)
	for range 5 {
		r.send(s, message(t, "x", "k"))
	}
	for range 3 {
		next(t, p)
	}
	ctx, cancel := contextWithTimeout(t, 50*time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); !isNotDrained(err) {
		t.Errorf("close: %v, want not drained", err)
	}
	if r.count() != 5 {
		t.Fatalf("%d of 5 outcomes when Close returned", r.count())
	}
	r.wantAll(map[string]int{"unknown closed": 3, "deferred not-sent": 2})
}

func TestC27_NothingPassesAClosedGate(t *testing.T) {
	t.Parallel()
	s, p, conn := scripted(t)
	must(t, conn.Blocked("low on memory"))
	eventually(t, "blocked", func() bool { return s.Stats().Blocked })
	r := newResults(t)
	for range 500 {
		r.sendReserved(s, message(t, "", "k"))
	}
	r.wait()
	r.wantAll(map[string]int{"deferred not-sent": 500})
	must(t, conn.Unblocked(), s.WaitReady(testCtx(t)))
	id := r.send(s, message(t, "", "k"))
	if m := next(t, p); m.MessageID != id {
		t.Error("a deferred message was sent")
	}
}

// TestSlowButAliveIsWaitedFor: nothing to read but heartbeats far apart; the sender asks
// and is answered, so it waits for the confirm.
func TestSlowButAliveIsWaitedFor(t *testing.T) {
	t.Parallel()
	s, p, _ := scripted(t)
	r := newResults(t)
	m := take(t, s, r, p, "", 1)[0]
	<-time.After(8 * time.Second) // beyond the watchdog's limit
	must(t, m.Ack(false))
	r.wait()
	r.wantAll(map[string]int{"acked": 1})
	if p.Declares("amq.direct") == 0 || s.Stats().Generation != 1 {
		t.Errorf("%d probes in generation %d", p.Declares("amq.direct"), s.Stats().Generation)
	}
}

// TestUnansweredCallEndsTheConnection: the peer sends heartbeats and reads nothing.
func TestUnansweredCallEndsTheConnection(t *testing.T) {
	t.Parallel()
	s, _, conn := scripted(t)
	r := newResults(t)
	conn.StopReading()
	r.send(s, message(t, "x", "k"))
	r.wait()
	r.wantAll(map[string]int{"deferred not-sent": 1})
	must(t, s.WaitReady(testCtx(t)))
	if got := s.Stats().Generation; got != 2 {
		t.Errorf("generation %d, want a second connection", got)
	}
}

func TestC09_WindowHalvesWhileAConfirmIsOverdue(t *testing.T) {
	t.Parallel()
	s, p, conn := scripted(t, func(c *confirms.Config) { c.Window, c.ConfirmTimeout = 10, 500*time.Millisecond })
	r := newResults(t)
	old := overdue(t, s, r, p)
	for range 10 {
		r.sendReserved(s, message(t, "", "k"))
	}
	first := make([]*scriptedbroker.Publish, 5)
	for i := range first {
		first[i] = next(t, p)
	}
	ctx, cancel := contextWithTimeout(t, 50*time.Millisecond)
	defer cancel()
	if m, err := p.NextPublish(ctx); err == nil {
		t.Errorf("a sixth of a window of 10 was sent: tag %d", m.Tag)
	}
	must(t, old[1].Ack(true), first[4].Ack(true))
	var last *scriptedbroker.Publish
	for range 5 {
		last = next(t, p)
	}
	must(t, last.Ack(true))
	r.wait()
	r.wantAll(map[string]int{"acked": 10, "unknown timeout": 2})
	if conn.Channels() > 2 {
		t.Errorf("%d channels", conn.Channels())
	}
}

func TestChannelClosedWithAnOddCodeIsStillAChannelException(t *testing.T) {
	t.Parallel()
	s, p, conn := scripted(t)
	r := newResults(t)
	m := take(t, s, r, p, "x", 2)
	must(t, conn.CloseChannel(m[0].Channel, 541, "INTERNAL_ERROR"))
	r.wait()
	r.wantAll(map[string]int{"unknown suspect": 2})
	must(t, s.WaitReady(testCtx(t)))
	if got := s.Stats().Generation; got != 1 {
		t.Errorf("generation %d, want the first connection still", got)
	}
}

func TestObserverHearsOfStateChanges(t *testing.T) {
	t.Parallel()
	events := make(chan string, 100)
	s, p, conn := scripted(t, func(c *confirms.Config) {
		c.Observers = []confirms.Observer{{
			Connected:     func(string, uint64) { events <- "connected" },
			Disconnected:  func(uint64, error) { events <- "disconnected" },
			Blocked:       func(on bool, reason string) { events <- fmt.Sprint("blocked ", on, " ", reason) },
			ChannelClosed: func(code int, _ string) { events <- fmt.Sprint("channel ", code) },
		}}
	})
	r := newResults(t)
	m := take(t, s, r, p, "", 1)[0]
	cut := func() error { conn.Cut(); return nil }
	for _, step := range []struct {
		do   func() error
		want string
	}{
		{func() error { return nil }, "connected"},
		{func() error { return conn.Blocked("why") }, "blocked true why"},
		{conn.Unblocked, "blocked false "},
		{func() error { return conn.CloseChannel(m.Channel, 404, "NOT_FOUND") }, "channel 404"},
		{cut, "disconnected"},
	} {
		must(t, step.do())
		if got := <-events; got != step.want {
			t.Errorf("event %q, want %q", got, step.want)
		}
	}
	r.wait()
}
