package settle_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/internal/settle"
	"github.com/transmsg/transmsg/model"
)

// fakeStore keeps rows by id and can be told to fail.
type fakeStore struct {
	mu        sync.Mutex
	rows      map[string]model.TransMessage
	discarded map[string]bool
	fail      int // the next so many calls fail
	batches   [][]string
	restored  []string
}

var errDown = errors.New("database down")

func newFakeStore(ids ...string) *fakeStore {
	s := &fakeStore{rows: map[string]model.TransMessage{}, discarded: map[string]bool{}}
	for _, id := range ids {
		s.rows[id] = *row(id)
	}
	return s
}

func row(id string) *model.TransMessage { return &model.TransMessage{ID: id, Status: model.Ready} }

// row is a copy of the stored row.
func (s *fakeStore) row(id string) *model.TransMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[id]
	return &r
}

func (s *fakeStore) failing() bool {
	if s.fail > 0 {
		s.fail--
		return true
	}
	return false
}

func (s *fakeStore) Delete(_ context.Context, keys []model.RowKey) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing() {
		return 0, errDown
	}
	var ids []string
	n := 0
	for _, k := range keys {
		ids = append(ids, k.ID)
		if r, ok := s.rows[k.ID]; ok && r.Epoch == k.Epoch {
			delete(s.rows, k.ID)
			n++
		}
	}
	s.batches = append(s.batches, ids)
	return n, nil
}

func (s *fakeStore) Settle(_ context.Context, list []model.Settlement) ([]model.Settled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing() {
		return nil, errDown
	}
	out := make([]model.Settled, len(list))
	for i, st := range list {
		r, ok := s.rows[st.ID]
		switch {
		case !ok:
			out[i] = model.SettledGone
		case r.Version != st.Version:
			out[i] = model.SettledFenced
		default:
			r.Version++
			r.Status, r.LastCode = st.Status, st.Outcome.Code
			r.Attempts += st.AttemptsDelta
			r.Failures += st.FailuresDelta
			s.rows[st.ID] = r
			out[i] = model.SettledDone
		}
	}
	return out, nil
}

func (s *fakeStore) LateAcks(context.Context, []model.RowKey, string) ([]model.RowKey, error) {
	return nil, nil
}

func (s *fakeStore) Restore(_ context.Context, rows []model.TransMessage, _ []model.Settlement) ([]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]bool, len(rows))
	for i, r := range rows {
		if !s.discarded[r.ID] {
			s.rows[r.ID], out[i] = r, true
			s.restored = append(s.restored, r.ID)
		}
	}
	return out, nil
}

func result(id string, k model.OutcomeKind, c model.CauseCode) *settle.Result {
	return &settle.Result{Row: row(id), Outcome: model.Outcome{Kind: k, Code: c}}
}

func newBatcher(s settle.Store, tweak func(*settle.Config)) *settle.Batcher {
	cfg := settle.Config{Store: s, Policy: model.Policy{}.WithDefaults(), Instance: "test"}
	if tweak != nil {
		tweak(&cfg)
	}
	return settle.NewBatcher(cfg)
}

func TestBatcherDeletesAckedAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore("b", "a", "c", "d")
		b := newBatcher(s, nil)
		b.Add(result("b", model.Acked, ""))
		b.Add(result("a", model.Acked, ""))
		b.Add(result("c", model.Returned, model.CodeNoRoute))
		b.Add(result("d", model.Unknown, model.CodeClosed))
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(s.rows) != 2 || s.rows["c"].LastCode != model.CodeNoRoute || s.rows["c"].Attempts != 1 ||
			s.rows["d"].Attempts != 0 || s.rows["d"].Failures != 1 {
			t.Errorf("rows left: %+v", s.rows)
		}
		for _, ids := range s.batches {
			if !slices.IsSorted(ids) {
				t.Errorf("delete batch %v is not sorted", ids)
			}
		}
	})
}

// C26: a failed delete is tried again alone until it succeeds.
func TestC26_FailedWritesAreRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore("a", "b")
		s.fail = 20
		b := newBatcher(s, nil)
		b.Add(result("a", model.Acked, ""))
		b.Add(result("b", model.Nacked, model.CodeNack))
		if err := b.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, there := s.rows["a"]; there || s.rows["b"].LastCode != model.CodeNack {
			t.Errorf("rows left: %+v", s.rows)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestBatcherCloseSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore("a", "b")
		s.fail = 1 << 30
		b := newBatcher(s, nil)
		b.Add(result("a", model.Acked, ""))
		b.Add(result("b", model.Returned, model.CodeNoRoute))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Close(ctx); !errors.Is(err, model.ErrNotDrained) {
			t.Errorf("close with the database down: got %v, want ErrNotDrained", err)
		}
		if b.Pending() != 2 {
			t.Errorf("pending %d, want 2", b.Pending())
		}
	})
}

func TestBatcherRestoresGoneRows(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		kind    model.OutcomeKind
		prepare func(*fakeStore)
		late    bool
		want    bool
	}{
		{name: "returned is inserted again", kind: model.Returned, want: true},
		{name: "nacked is inserted again", kind: model.Nacked, want: true},
		{name: "unknown stays gone", kind: model.Unknown},
		{name: "deferred stays gone", kind: model.Deferred},
		{
			name: "discarded stays gone", kind: model.Returned,
			prepare: func(s *fakeStore) { s.discarded["x"] = true },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newFakeStore()
				if tt.prepare != nil {
					tt.prepare(s)
				}
				b := newBatcher(s, nil)
				b.Add(result("x", tt.kind, "code"))
				if err := b.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := len(s.restored) == 1; got != tt.want {
					t.Errorf("restored %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// A late ack deletes the row whatever its version is by then.
func TestBatcherLateAckDeletes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore("x")
		b := newBatcher(s, nil)
		r := result("x", model.Unknown, model.CodeTimeout)
		b.Add(r)
		if err := b.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.rows["x"].Version != 1 {
			t.Fatalf("row after the timeout: %+v, want version 1", s.rows["x"])
		}
		b.LateAck(r)
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(s.rows) != 0 {
			t.Errorf("rows left: %+v", s.rows)
		}
	})
}

func TestBatcherBoundsAndBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore()
		s.fail = 5
		b := newBatcher(s, func(c *settle.Config) { c.MaxPending = 1200 })
		for i := range 1200 {
			if !b.Accepts(1) {
				t.Fatalf("no room at %d", i)
			}
			b.Add(result(string(rune('a'+i%26))+time.Duration(i).String(), model.Acked, ""))
		}
		if b.Accepts(1) {
			t.Error("room above MaxPending while nothing is written")
		}
		if err := b.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !b.Accepts(1200) {
			t.Error("no room after the flush")
		}
		for _, ids := range s.batches {
			if len(ids) > 500 {
				t.Errorf("a delete of %d ids, the bound is 500", len(ids))
			}
		}
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// recorder keeps the settlements it is given.
type recorder struct {
	*fakeStore
	list []model.Settlement
}

func (s *recorder) Settle(ctx context.Context, list []model.Settlement) ([]model.Settled, error) {
	s.list = append(s.list, list...)
	return s.fakeStore.Settle(ctx, list)
}

// Only a deferred row takes the wait of its outcome: backoff is the policy's.
func TestBatcherDelaysDeferred(t *testing.T) {
	t.Parallel()
	s := &recorder{fakeStore: newFakeStore("a", "b")}
	b := newBatcher(s, func(c *settle.Config) { c.Policy.Jitter = model.None })
	deferred, returned := result("a", model.Deferred, model.CodeNotSent), result("b", model.Returned, model.CodeNoRoute)
	deferred.Outcome.Wait, returned.Delay = time.Hour, time.Hour
	b.Add(deferred)
	b.Add(returned)
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := map[string]model.Settlement{}
	for _, st := range s.list {
		got[st.ID] = st
	}
	if d := got["a"]; d.Delay != time.Hour || d.AttemptsDelta+d.FailuresDelta != 0 || d.Status != model.Ready {
		t.Errorf("deferred: %+v, want READY in an hour, not charged", d)
	}
	if d := got["b"]; d.Delay != time.Second {
		t.Errorf("returned: delay %v, want the policy's second", d.Delay)
	}
}
