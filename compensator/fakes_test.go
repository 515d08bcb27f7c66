package compensator_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/breaker"
	"github.com/transmsg/transmsg/model"
)

// fakeStore keeps rows in memory with the semantics of a store: due order, leases,
// fenced settlements. Its clock is time.Now, which a synctest bubble fakes.
type fakeStore struct {
	mu     sync.Mutex
	rows   map[string]model.TransMessage
	claims []model.Claim
	err    error // every call fails with it
	panics int   // the next so many claims panic
	dead   []string
	fenced int
	before func(model.Claim) // called at each claim, unlocked

	deadClaims int
	owes       map[model.AlertKey]*owedLine
	marks      []mark
	stats      []model.Stats
	counts     bool // Stats are those of the rows
	purges     []string
	old        map[string]int // events and DEAD rows that are old enough to purge
}

// mark is one call of MarkAlerted.
type mark struct {
	rows int
	next time.Duration
}

func newStore() *fakeStore { return &fakeStore{rows: map[string]model.TransMessage{}} }

func nowMS() int64 { return time.Now().UnixMilli() }

// put stores n due rows for service and returns their ids in due order.
func (s *fakeStore) put(t *testing.T, n int, service string, change func(*model.TransMessage)) []string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, n)
	for i := range n {
		m, err := model.Normalize(model.Message{Exchange: "ex", RoutingKey: "k", Body: []byte("x")},
			time.Now(), model.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		r := model.NewTransMessage(service, &m, true)
		r.CreatedAt = nowMS()
		r.NextAttemptAt = nowMS()
		if change != nil {
			change(&r)
		}
		s.rows[r.ID], ids[i] = r, r.ID
	}
	return ids
}

func (s *fakeStore) row(id string) (model.TransMessage, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.rows[id]
	return r, ok
}

func (s *fakeStore) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rows)
}

func (s *fakeStore) setErr(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *fakeStore) claimed() []model.Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.claims)
}

func (s *fakeStore) due(service string) []model.TransMessage {
	var due []model.TransMessage
	for _, r := range s.rows {
		if r.Status == model.Ready && r.NextAttemptAt <= nowMS() && (service == "" || r.Service == service) {
			due = append(due, r)
		}
	}
	slices.SortFunc(due, func(a, b model.TransMessage) int {
		return cmp.Or(cmp.Compare(a.NextAttemptAt, b.NextAttemptAt), cmp.Compare(a.ID, b.ID))
	})
	return due
}

func (s *fakeStore) Services(context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	set := map[string]bool{}
	for _, r := range s.due("") {
		set[r.Service] = true
	}
	return slices.Sorted(maps.Keys(set)), nil
}

func (s *fakeStore) Claim(_ context.Context, c model.Claim) (model.Claimed, error) {
	if s.before != nil {
		s.before(c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return model.Claimed{}, s.err
	}
	if s.panics > 0 {
		s.panics--
		panic("store panics")
	}
	s.claims = append(s.claims, c)
	out := model.Claimed{}
	var bytes int64
	for _, r := range s.due(c.Service) {
		if r.NextAttemptAt < c.After.DueAt || (r.NextAttemptAt == c.After.DueAt && r.ID <= c.After.ID) {
			continue
		}
		if len(out.Rows) == c.MaxRows || (len(out.Rows) > 0 && bytes+int64(r.Size) > c.MaxBytes) {
			out.More = true
			break
		}
		bytes += int64(r.Size)
		out.Last = model.Cursor{DueAt: r.NextAttemptAt, ID: r.ID}
		r.Version++
		r.Claims++
		r.ClaimedBy, r.UpdatedAt = c.Instance, nowMS()
		out.Rows = append(out.Rows, r)
		r.NextAttemptAt = nowMS() + c.Lease.Milliseconds()
		s.rows[r.ID] = r
	}
	return out, nil
}

func (s *fakeStore) Settle(_ context.Context, list []model.Settlement) ([]model.Settled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	out := make([]model.Settled, len(list))
	for i, st := range list {
		out[i] = s.settle(st)
	}
	return out, nil
}

func (s *fakeStore) settle(st model.Settlement) model.Settled {
	r, ok := s.rows[st.ID]
	switch {
	case !ok:
		return model.SettledGone
	case r.Version != st.Version:
		s.fenced++
		return model.SettledFenced
	}
	r.Version++
	r.Claims, r.ClaimedBy = 0, ""
	r.Status = st.Status
	r.NextAttemptAt = nowMS() + st.Delay.Milliseconds()
	if st.AttemptsDelta > 0 && r.FirstFailedAt <= r.ReplayedAt {
		r.FirstFailedAt = time.Now().UnixMilli()
	}
	r.Attempts += st.AttemptsDelta
	r.Failures += st.FailuresDelta
	if st.Outcome.Kind != model.Deferred || (st.Outcome.Code != "" && st.Outcome.Code != model.CodeNotSent) {
		r.LastCode, r.LastError = st.Outcome.Code, st.Outcome.Text
	}
	if st.Exhausted {
		s.owe(model.AlertExhausted, &r)
	}
	if r.Status == model.Dead {
		s.dead = append(s.dead, r.ID)
		r.UpdatedAt = nowMS()
	}
	s.rows[st.ID] = r
	return model.SettledDone
}

func (s *fakeStore) LateAcks(context.Context, []model.RowKey, string) ([]model.RowKey, error) {
	return nil, nil
}

func (s *fakeStore) Restore(_ context.Context, rows []model.TransMessage, _ []model.Settlement) ([]bool, error) {
	return make([]bool, len(rows)), nil
}

func (s *fakeStore) Delete(_ context.Context, keys []model.RowKey) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	n := 0
	for _, k := range keys {
		if r, ok := s.rows[k.ID]; ok && r.Epoch == k.Epoch {
			delete(s.rows, k.ID)
			n++
		}
	}
	return n, nil
}

func (s *fakeStore) ClaimDead(_ context.Context, c model.DeadClaim) ([]model.TransMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	s.deadClaims++
	var out []model.TransMessage
	for _, id := range slices.Sorted(maps.Keys(s.rows)) {
		r := s.rows[id]
		if r.Status == model.Dead && r.NextAttemptAt <= nowMS() && len(out) < c.MaxRows {
			r.Version++
			r.NextAttemptAt, r.ClaimedBy = nowMS()+c.Lease.Milliseconds(), c.Instance
			s.rows[id] = r
			r.Payload = nil
			out = append(out, r)
		}
	}
	return out, nil
}

func (s *fakeStore) MarkAlerted(_ context.Context, keys []model.RowKey, next time.Duration) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next < time.Millisecond {
		return 0, fmt.Errorf("next %v must be positive", next)
	}
	if s.err != nil {
		return 0, s.err
	}
	s.marks = append(s.marks, mark{len(keys), next})
	for _, k := range keys {
		if r, ok := s.rows[k.ID]; ok && r.Epoch == k.Epoch && r.Status == model.Dead {
			r.Version++
			r.NextAttemptAt, r.ClaimedBy = nowMS()+next.Milliseconds(), ""
			s.rows[k.ID] = r
		}
	}
	return len(keys), nil
}

// Groups counts the rows of a filter, as one group.
func (s *fakeStore) Groups(_ context.Context, f model.Filter) ([]model.Group, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := model.Group{}
	for _, r := range s.rows {
		if r.Status != f.Status || r.Service != f.Service || r.LastCode != f.Code ||
			(f.Exhausted && s.owes[model.AlertKey{ID: r.ID, Kind: model.AlertExhausted, Epoch: r.Epoch}] == nil) ||
			(f.Exchange != "" && r.Exchange != f.Exchange) || (f.RoutingKey != "" && r.RoutingKey != f.RoutingKey) {
			continue
		}
		if g.Rows++; g.Rows == 1 || r.UpdatedAt < g.First {
			g.First = r.UpdatedAt
		}
	}
	return []model.Group{g}, s.err
}

func (s *fakeStore) Stats(context.Context, string) ([]model.Stats, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts {
		return s.counted(), s.err
	}
	return slices.Clone(s.stats), s.err
}

func (s *fakeStore) PurgeEvents(_ context.Context, olderThan time.Duration, most int) (int, error) {
	return s.purge("events", olderThan, most)
}

func (s *fakeStore) PurgeDead(_ context.Context, olderThan time.Duration, most int) (int, error) {
	return s.purge("dead", olderThan, most)
}

func (s *fakeStore) PurgeInbox(_ context.Context, olderThan time.Duration, most int) (int, error) {
	return s.purge("inbox", olderThan, most)
}

func (s *fakeStore) purge(what string, olderThan time.Duration, most int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	n := min(s.old[what], most)
	if n > 0 {
		s.old[what] -= n
	}
	s.purges = append(s.purges, fmt.Sprintf("%s older than %v: %d", what, olderThan, n))
	return n, nil
}

// fakeSender answers each send by its script after a delay.
type fakeSender struct {
	mu       sync.Mutex
	down     bool
	room     int // reserved messages at most; 0 = no bound
	reserved int
	delay    time.Duration
	script   func(confirms.Send) model.Outcome // nil acks
	sent     map[string]int                    // by id
	order    []string
	alone    map[string]bool
	at       []time.Time
	confirm  time.Duration
	late     bool // acks come after an unknown timeout
	pending  sync.WaitGroup
	broken   *breaker.Breaker // as the real one has
	refusal  func(confirms.Refusal)
}

func newSender() *fakeSender {
	s := &fakeSender{sent: map[string]int{}, alone: map[string]bool{}}
	s.broken = breaker.New(breaker.Config{Delay: time.Second, Forget: 3 * time.Hour, Changed: func(c breaker.Change) {
		s.mu.Lock()
		tell := s.refusal
		s.mu.Unlock()
		if tell != nil && c.Target.Kind != breaker.Route {
			tell(confirms.Refusal{
				Exchange: c.Target.Exchange, Topic: c.Target.Key, Open: c.Open, Passed: c.Passed, Cause: c.Cause,
			})
		}
	}})
	return s
}

func (s *fakeSender) Held(func(confirms.Handler)) {}

func (s *fakeSender) Waits(exchange, key string) (model.Outcome, bool) {
	return s.broken.Waits(exchange, key)
}

func (s *fakeSender) OnRefusal(f func(confirms.Refusal)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refusal = nil
	}
}

func (s *fakeSender) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *fakeSender) Ready() bool {
	s.broken.Forget()
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.down
}

func (s *fakeSender) FrameMax() int { return model.DefaultFrameMax }

func (s *fakeSender) ConfirmTimeout() time.Duration { return cmp.Or(s.confirm, 15*time.Second) }

func (s *fakeSender) TryReserve(n int, _ int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down || (s.room > 0 && s.reserved+n > s.room) {
		return false
	}
	s.reserved += n
	return true
}

func (s *fakeSender) Reserve(ctx context.Context, n int, bytes int64) error {
	for !s.TryReserve(n, bytes) {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (s *fakeSender) Release(n int, _ int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved -= n
}

func (s *fakeSender) Send(send confirms.Send) {
	m := send.Message
	probe, why, waits := s.broken.Admit(m.Exchange, m.RoutingKey)
	if waits {
		s.pending.Go(func() {
			s.Release(1, 0)
			send.Handler.Done(why)
		})
		return
	}
	send.Alone = send.Alone || (probe != nil && probe.Alone())
	s.mu.Lock()
	id := send.Message.ID
	s.sent[id]++
	s.order = append(s.order, id)
	s.at = append(s.at, time.Now())
	if send.Alone {
		s.alone[id] = true
	}
	script, delay, late := s.script, s.delay, s.late
	s.mu.Unlock()
	s.pending.Go(func() {
		time.Sleep(delay) // in a bubble: fake time
		o := model.Outcome{Kind: model.Acked}
		if time.Since(send.Since) > send.Within {
			o = model.Outcome{Kind: model.Deferred, Code: model.CodeNotSent}
		} else if script != nil {
			o = script(send)
		}
		s.broken.Outcome(probe, m.Exchange, m.RoutingKey, o)
		s.Release(1, 0)
		send.Handler.Done(o)
		if late && o.Kind == model.Unknown {
			time.Sleep(time.Second)
			send.Handler.LateAck()
		}
	})
}

func (s *fakeSender) total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.order)
}

func (s *fakeSender) times(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[id]
}

func returned(confirms.Send) model.Outcome {
	return model.Outcome{Kind: model.Returned, Code: model.CodeNoRoute, Text: "NO_ROUTE"}
}

var errDatabase = errors.New("database down")

// running is a Compensator at work in the background.
type running struct {
	cancel context.CancelFunc
	done   chan error
}

// start runs a Compensator until stop.
func start(t *testing.T, cfg compensator.Config) *running {
	t.Helper()
	c, err := compensator.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- c.Run(ctx) }()
	return r
}

// stop ends the Compensator and returns Run's error.
func (r *running) stop() error {
	r.cancel()
	return <-r.done
}

func (r *running) drained(t *testing.T) {
	t.Helper()
	if err := r.stop(); err != nil {
		t.Errorf("run: %v, want nil (drained)", err)
	}
}

// once checks that each id was sent exactly once.
func once(t *testing.T, s *fakeSender, ids []string) {
	t.Helper()
	for _, id := range ids {
		if n := s.times(id); n != 1 {
			t.Errorf("id %s was sent %d times, want once", id, n)
		}
	}
}

func name(i int) string { return fmt.Sprintf("svc%02d", i) }

func (s *fakeStore) Extend(context.Context, []model.Held, time.Duration) (int, error) { return 0, nil }
