package confirms_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/scriptedbroker"
	"github.com/transmsg/transmsg/model"
)

// half is a broker with one queue that confirms nothing, behind the key "sick".
type half struct {
	mu     sync.Mutex
	deaf   bool
	held   []*scriptedbroker.Publish
	copies map[string]int
	tags   map[uint16]bool // channels that were published on
}

func (h *half) onPublish(m *scriptedbroker.Publish) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tags[m.Channel] = true
	if m.RoutingKey == "sick" && h.deaf {
		h.held = append(h.held, m)
		h.copies[m.MessageID]++
		return
	}
	_ = m.Ack(false) // an error says that the connection ended
}

// recover answers what was held and everything from now on.
func (h *half) recover() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deaf = false
	for _, m := range h.held {
		_ = m.Ack(false) // it may have been on a channel that is closed
	}
}

func (h *half) got() (sick, most, channels int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.copies {
		most = max(most, n)
	}
	return len(h.held), most, len(h.tags)
}

func halfBroker(t *testing.T, edit func(*confirms.Config)) (*confirms.Sender, *half) {
	t.Helper()
	h := &half{deaf: true, copies: map[string]int{}, tags: map[uint16]bool{}}
	s, _, _ := scriptedBy(t, scriptedbroker.Options{OnPublish: h.onPublish}, edit)
	return s, h
}

// healthy sends one message of another route, as a publisher does: only if there is room at
// once. It reports whether the broker has it.
func healthy(t *testing.T, s *confirms.Sender, i int) bool {
	t.Helper()
	m := message(t, "x", fmt.Sprint("well", i%3))
	if !s.TryReserve(1, 4) {
		return false
	}
	r := newResults(t)
	id := r.sendReserved(s, m)
	r.wait()
	return r.outcome(id).Kind == model.Acked
}

// One queue without confirms: the messages of the others are sent and acked, all of them.
func TestE3_OneSilentQueueLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	s, h := halfBroker(t, func(c *confirms.Config) {
		c.ConfirmTimeout, c.Window, c.MaxPending = 400*time.Millisecond, 100, 1000
	})
	sick := newResults(t)
	deferred, sent := 0, 0
	eventually(t, "several confirm timeouts", func() bool {
		for range 5 {
			if s.TryReserve(1, 4) {
				sick.sendReserved(s, message(t, "x", "sick"))
			}
		}
		sent++
		if !healthy(t, s, sent) {
			deferred++
		}
		return s.Stats().Overdue > 0 && sent > 400
	})
	if deferred*100 > sent {
		t.Errorf("%d of %d healthy messages were not sent", deferred, sent)
	}
	n, _, channels := h.got()
	if n > 60 { // shares of two channels, and probes
		t.Errorf("%d messages went to the silent queue, want a share of the window", n)
	}
	if channels > 4 || s.Stats().Generation != 1 || s.Stats().SilentRoutes != 1 {
		t.Errorf("%d channels, %+v: want few, one connection, one silent route", channels, s.Stats())
	}
	h.recover()
	eventually(t, "a message of the queue that answers again is acked", func() bool {
		r := newResults(t)
		id := r.send(s, message(t, "x", "sick"))
		r.wait()
		return r.outcome(id).Kind == model.Acked
	})
	if n := s.Stats().SilentRoutes; n != 0 {
		t.Errorf("%d silent routes after the recovery", n)
	}
}

// Little traffic: nothing newer is answered when a confirm is overdue, and still the others
// are taken at once.
func TestE3_OneOverdueSendGatesNobody(t *testing.T) {
	t.Parallel()
	s, _ := halfBroker(t, func(c *confirms.Config) { c.ConfirmTimeout = 300 * time.Millisecond })
	r := newResults(t)
	id := r.send(s, message(t, "x", "sick"))
	r.wait()
	r.want(id, model.Unknown, model.CodeTimeout)
	if !healthy(t, s, 0) {
		t.Errorf("a healthy message was not sent: %+v", s.Stats())
	}
}

// The same row comes again and again: there is one copy of it on a channel, and another
// only when that channel is given up.
func TestE3_CopiesOfOneRowAreBounded(t *testing.T) {
	t.Parallel()
	s, h := halfBroker(t, func(c *confirms.Config) {
		c.ConfirmTimeout, c.ProbeDelay = 300*time.Millisecond, time.Millisecond
	})
	m := message(t, "x", "sick")
	tries := 0
	eventually(t, "many tries", func() bool {
		r := newResults(t)
		r.send(s, m)
		r.wait()
		tries++
		return tries >= 50 && s.Stats().Overdue > 0
	})
	if _, copies, _ := h.got(); copies > 2 {
		t.Errorf("%d copies of one row in %d tries", copies, tries)
	}
	eventually(t, "a second copy once the first channel is given up", func() bool {
		r := newResults(t)
		r.send(s, m)
		r.wait()
		_, copies, _ := h.got()
		return copies >= 2
	})
}
