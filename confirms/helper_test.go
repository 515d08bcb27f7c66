package confirms_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

const patience = 20 * time.Second

func testCtx(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// eventually polls for a state.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// logBuffer keeps what a sender logs.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func textLogger(l *logBuffer) *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func configFor(t testing.TB, url string) confirms.Config {
	t.Helper()
	cfg, err := confirms.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// open opens a sender, waits until it is ready and closes it at the end.
func open(t testing.TB, cfg confirms.Config) *confirms.Sender {
	t.Helper()
	s := start(t, cfg)
	if err := s.WaitReady(testCtx(t)); err != nil {
		t.Fatal(err)
	}
	return s
}

// start opens a sender without waiting for the broker. What it logs is shown when the
// test fails.
func start(t testing.TB, cfg confirms.Config) *confirms.Sender {
	t.Helper()
	logs := &logBuffer{}
	if cfg.Logger == nil {
		cfg.Logger = textLogger(logs)
	}
	s, err := confirms.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		// A test that leaves sends open closes by itself and looks at the error.
		_ = s.Close(ctx)
		if t.Failed() {
			t.Logf("log of the sender:\n%s", logs)
		}
	})
	return s
}

// results collects outcomes by message id and counts what must not happen.
type results struct {
	t     testing.TB
	mu    sync.Mutex
	byID  map[string]model.Outcome
	late  map[string]int
	sent  int
	order []string
}

func newResults(t testing.TB) *results {
	return &results{t: t, byID: make(map[string]model.Outcome), late: make(map[string]int)}
}

type handler struct {
	r  *results
	id string
	mu sync.Mutex
	n  int
}

func (h *handler) Done(o model.Outcome) {
	h.mu.Lock()
	h.n++
	n := h.n
	h.mu.Unlock()
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	if n > 1 {
		h.r.t.Errorf("%s: outcome %d: %s", h.id, n, o)
	}
	h.r.byID[h.id] = o
	h.r.order = append(h.r.order, h.id)
}

func (h *handler) LateAck() {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	o := h.r.byID[h.id]
	if o.Kind != model.Unknown || o.Code != model.CodeTimeout {
		h.r.t.Errorf("%s: late ack after %q", h.id, o)
	}
	h.r.late[h.id]++
	if h.r.late[h.id] > 1 {
		h.r.t.Errorf("%s: %d late acks", h.id, h.r.late[h.id])
	}
}

// message is a normalized message with a body of its own.
func message(t testing.TB, exchange, key string) *model.Message {
	t.Helper()
	m, err := model.Normalize(model.Message{
		Exchange: exchange, RoutingKey: key, Body: []byte("body"),
	}, time.Now(), model.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return &m
}

// send reserves room and sends.
func (r *results) send(s *confirms.Sender, m *model.Message, edit ...func(*confirms.Send)) string {
	r.t.Helper()
	if err := s.Reserve(testCtx(r.t), 1, int64(len(m.Body))); err != nil {
		r.t.Fatal(err)
	}
	return r.sendReserved(s, m, edit...)
}

func (r *results) sendReserved(s *confirms.Sender, m *model.Message, edit ...func(*confirms.Send)) string {
	send := confirms.Send{Message: m, Since: time.Now(), Handler: &handler{r: r, id: m.ID}}
	for _, f := range edit {
		f(&send)
	}
	r.mu.Lock()
	r.sent++
	r.mu.Unlock()
	s.Send(send)
	return m.ID
}

func alone(s *confirms.Send) { s.Alone = true }

// wait waits until every send has its outcome.
func (r *results) wait() {
	r.t.Helper()
	eventually(r.t, "an outcome for every send", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.byID) == r.sent
	})
}

func (r *results) outcome(id string) model.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

func (r *results) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byID)
}

func (r *results) lateAcks() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.late)
}

// tally counts outcomes as "kind" or "kind code".
func (r *results) tally() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := make(map[string]int)
	for _, o := range r.byID {
		k := o.Kind.String()
		if o.Code != "" {
			k += " " + string(o.Code)
		}
		n[k]++
	}
	return n
}

// want checks the outcome of one send.
func (r *results) want(id string, kind model.OutcomeKind, code model.CauseCode) {
	r.t.Helper()
	if o := r.outcome(id); o.Kind != kind || o.Code != code {
		r.t.Errorf("outcome: got %s, want %s %s", o, kind, code)
	}
}

// wantAll checks the tally of all outcomes.
func (r *results) wantAll(want map[string]int) {
	r.t.Helper()
	if got := r.tally(); fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("outcomes: got %v, want %v", got, want)
	}
}

// must fails the test when an error of the set-up is not nil.
func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// queueOn declares a direct exchange and a queue bound to it by key.
func queueOn(t testing.TB, c *amqptest.Client, exchange, queue, key string) {
	t.Helper()
	must(t, c.Exchange(exchange, "direct", nil), c.Queue(amqptest.QueueSpec{Name: queue}),
		c.Bind(queue, exchange, key))
}

// ids returns the distinct message ids ready in a queue.
func ids(t testing.TB, c *amqptest.Client, queue string) map[string]int {
	t.Helper()
	deliveries, err := c.Drain(queue)
	must(t, err)
	n := make(map[string]int)
	for _, d := range deliveries {
		n[d.MessageId]++
	}
	return n
}

func contextWithTimeout(t testing.TB, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), d)
}

func isNotDrained(err error) bool { return errors.Is(err, model.ErrNotDrained) }
