package modeltest_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/scriptedbroker"
	"github.com/transmsg/transmsg/model"
)

const (
	window   = 8
	patience = 20 * time.Second
)

// told is what the tracker said of one send.
type told struct {
	mu       sync.Mutex
	outcomes []model.Outcome
	late     int
}

// Done implements confirms.Handler.
func (h *told) Done(o model.Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.outcomes = append(h.outcomes, o)
}

// LateAck implements confirms.Handler.
func (h *told) LateAck() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.late++
}

func (h *told) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.outcomes)
}

// tracker is a walk of a sender and a broker that answers at random, in any order that the
// protocol allows.
type tracker struct {
	ctx    context.Context //nolint:containedctx // of the test, for the actions that rapid calls
	peer   *scriptedbroker.Peer
	conn   *scriptedbroker.Conn
	sender *confirms.Sender
	open   []*scriptedbroker.Publish // on the wire and not answered, in order
	sends  map[string]*told
	want   map[string][]model.OutcomeKind // what has been answered, and what that may mean
	closed int                            // channels closed so far, for the exchange's name
}

func newTracker(t *rapid.T) *tracker {
	w := &tracker{ctx: t.Context(), sends: map[string]*told{}, want: map[string][]model.OutcomeKind{}}
	var err error
	if w.peer, err = scriptedbroker.New(scriptedbroker.Options{}); err != nil {
		t.Fatal(err)
	}
	cfg, err := confirms.ParseURL(w.peer.URL())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Window, cfg.MaxPending = window, 2*window
	if w.sender, err = confirms.Open(cfg); err != nil {
		t.Fatal(err)
	}
	w.connected(t)
	return w
}

func (w *tracker) close(t *rapid.T) {
	w.conn.Cut() // what is open is unknown; otherwise Close would wait for it
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := w.sender.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := w.peer.Close(); err != nil {
		t.Error(err)
	}
	for id, h := range w.sends {
		if n := h.count(); n != 1 {
			t.Errorf("%s has %d outcomes after Close, want one", id, n)
		}
	}
}

// connected waits for the next connection and for the sender to be ready on it.
func (w *tracker) connected(t *rapid.T) {
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	var err error
	if w.conn, err = w.peer.NextConn(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.sender.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
}

// trackerSteps bounds one walk: a step may cost a new connection.
const trackerSteps = 25

// TestTrackerWalk answers sends at random and checks that each has the outcome that its
// answers mean, once.
func TestTrackerWalk(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newTracker(t)
		defer w.close(t)
		// Some are listed twice: they come more often.
		actions := []func(*rapid.T){
			w.send, w.send, w.send, w.confirm, w.confirm, w.returned, w.returned, w.burst,
			w.closeChannel, w.closeAll, w.block,
		}
		for range rapid.IntRange(1, trackerSteps).Draw(t, "steps") {
			actions[rapid.IntRange(0, len(actions)-1).Draw(t, "action")](t)
			w.check(t)
		}
	})
}

// check waits for the outcomes that are due, and finds those that are not.
func (w *tracker) check(t *rapid.T) {
	for id, kinds := range w.want {
		h := w.sends[id]
		w.until(t, func() bool { return h.count() > 0 })
		if !slices.Contains(kinds, h.outcomes[0].Kind) {
			t.Fatalf("%s: %s, want one of %v", id, h.outcomes[0], kinds)
		}
	}
	for id, h := range w.sends {
		h.mu.Lock()
		n, late := len(h.outcomes), h.late
		h.mu.Unlock()
		if answered := w.want[id] != nil; n > 1 || late > 0 || n == 1 && !answered {
			t.Fatalf("%s: %d outcomes (%v) and %d late acks, answered %t", id, n, h.outcomes, late, answered)
		}
	}
	// The count follows the outcomes at once.
	w.until(t, func() bool { return w.sender.Stats().Pending == len(w.open) })
}

// until waits for a state.
func (w *tracker) until(t *rapid.T, holds func() bool) {
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v; %+v with %d on the wire", patience, w.sender.Stats(), len(w.open))
		}
		time.Sleep(100 * time.Microsecond) // the interval of a poll with a deadline
	}
}

// send puts one to three messages on the wire, within the window.
func (w *tracker) send(t *rapid.T) {
	for range rapid.IntRange(1, 3).Draw(t, "n") {
		if len(w.open) == window {
			return
		}
		id := fmt.Sprintf("00000000-0000-7000-8000-%012d", len(w.sends))
		w.sends[id] = w.hand(t, id)
		ctx, cancel := context.WithTimeout(w.ctx, patience)
		m, err := w.peer.NextPublish(ctx)
		cancel()
		if err != nil || m.MessageID != id || !m.Mandatory {
			t.Fatalf("on the wire: %+v, %v; want %s, mandatory", m, err, id)
		}
		w.open = append(w.open, m)
	}
}

func (w *tracker) hand(t *rapid.T, id string) *told {
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	if err := w.sender.Reserve(ctx, 1, 4); err != nil {
		t.Fatal(err)
	}
	h := &told{}
	w.sender.Send(confirms.Send{
		Message: &model.Message{
			ID: id, Exchange: fmt.Sprint("x", w.closed), RoutingKey: "k", Body: []byte("body"),
		},
		Handler: h,
	})
	return h
}
