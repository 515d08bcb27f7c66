package publisher_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

// TestMain looks for what was left running, but for the goroutine that gorm starts for its cache of
// prepared statements and never ends.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gorm.io/gorm/internal/lru.NewLRU[...].func1"))
}

func open(t *testing.T, s publisher.Store, snd publisher.Sender, tweak func(*publisher.Config)) *publisher.Publisher {
	t.Helper()
	cfg := publisher.Config{Service: "orders", Store: s, Sender: snd, Policy: model.Policy{Jitter: model.None}}
	if tweak != nil {
		tweak(&cfg)
	}
	p, err := publisher.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func closeNow(t *testing.T, p *publisher.Publisher) {
	t.Helper()
	if err := p.Close(context.Background()); err != nil {
		t.Errorf("close: %v", err)
	}
}

func msg(key string) model.Message {
	return model.Message{Exchange: "ex", RoutingKey: key, Body: []byte("body of " + key)}
}

func outcome(t *testing.T, r *publisher.Receipt) model.Outcome {
	t.Helper()
	o, err := r.Wait(t.Context())
	if err != nil {
		t.Fatalf("wait: %v", err)
	}
	return o
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		tweak func(*publisher.Config)
		want  string
	}{
		{"no service", func(c *publisher.Config) { c.Service = "" }, `Service "" must have 1 to 64`},
		{"long service", func(c *publisher.Config) { c.Service = strings.Repeat("s", 65) }, "1 to 64 bytes"},
		{"T5 white space", func(c *publisher.Config) { c.Service = " \t" }, `" \t" is white space only; name`},
		{"T5 service with a space", func(c *publisher.Config) { c.Service = "pay " }, `white space ("pay" is`},
		{"service with NUL", func(c *publisher.Config) { c.Service = "a\x00b" }, `"a\x00b" must not contain NUL`},
		{"instance with NUL", func(c *publisher.Config) { c.Instance = "a\x00" }, `Instance "a\x00" must be`},
		{"instance not UTF-8", func(c *publisher.Config) { c.Instance = "\xff" }, `Instance "\xff" must be`},
		{"no store", func(c *publisher.Config) { c.Store = nil }, "Store is required"},
		{"no sender", func(c *publisher.Config) { c.Sender = nil }, "Sender is required"},
		{"body above the store's", func(c *publisher.Config) { c.MaxBody = 9 << 20 }, "must be at most 8388608"},
		{
			"short budget", func(c *publisher.Config) { c.SendBudget = time.Millisecond },
			"SendBudget 1ms must be at least 1s",
		},
		{
			"lease below the relation", func(c *publisher.Config) { c.Lease = 29 * time.Second },
			"Lease 29s must be at least the confirm timeout 15s + 3s + SendBudget 12s",
		},
		{"negative bound", func(c *publisher.Config) { c.MaxUnsettled = -1 }, "MaxUnsettled -1"},
		{"policy", func(c *publisher.Config) { c.Policy.MaxAttempts = -1 }, "MaxAttempts -1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := publisher.Config{Service: "orders", Store: newMemStore(), Sender: &fakeSender{}}
			tt.tweak(&cfg)
			p, err := publisher.Open(cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
			if err == nil {
				closeNow(t, p)
			}
		})
	}
}

func TestPublishSettlesByOutcome(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		outcome  model.Outcome
		left     bool
		attempts int
		delay    time.Duration
	}{
		{"acked deletes", model.Outcome{Kind: model.Acked}, false, 0, 0},
		{"returned keeps", model.Outcome{Kind: model.Returned, Code: model.CodeNoRoute}, true, 1, time.Second},
		{"nacked keeps", model.Outcome{Kind: model.Nacked, Code: model.CodeNack}, true, 1, time.Second},
		{"unknown spends nothing", model.Outcome{Kind: model.Unknown, Code: model.CodeClosed}, true, 0, time.Second},
		{"deferred is due", model.Outcome{Kind: model.Deferred, Code: model.CodeNotSent}, true, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newMemStore()
			snd := &fakeSender{answer: func(confirms.Send) model.Outcome { return tt.outcome }}
			p := open(t, s, snd, nil)
			r, err := p.Publish(t.Context(), msg("k"))
			if err != nil {
				t.Fatal(err)
			}
			if got := outcome(t, r); got != tt.outcome {
				t.Errorf("outcome %v, want %v", got, tt.outcome)
			}
			closeNow(t, p)
			row, delay, left := s.row(r.ID())
			if left != tt.left || row.Attempts != tt.attempts || (left && delay != tt.delay) {
				t.Errorf("left %v with %d attempts, due after %v; want %v, %d, %v",
					left, row.Attempts, delay, tt.left, tt.attempts, tt.delay)
			}
			if snd.held() != 0 {
				t.Errorf("%d units of room never given back", snd.held())
			}
		})
	}
}

// Who sends is decided before the row is stored: leased when this process sends, due at
// once when it does not.
func TestPublishDecidesWhoSends(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		full  bool
		wait  time.Duration
		sends bool
		delay time.Duration
	}{
		{"room: leased and sent", false, 0, true, 30 * time.Second},
		{"no room: due now and never sent", true, 0, false, 0},
		{"not before: due then and never sent", false, time.Hour, false, time.Hour},
		{"not before in the past: due now and never sent", false, -time.Hour, false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, snd := newMemStore(), &fakeSender{full: tt.full}
				p := open(t, s, snd, nil)
				m := msg("k")
				if tt.wait != 0 {
					m.NotBefore = time.Now().Add(tt.wait)
				}
				r, err := p.Publish(t.Context(), m)
				if err != nil {
					t.Fatal(err)
				}
				row, delay, _ := s.row(r.ID())
				if delay != tt.delay || snd.count() == 1 != tt.sends || (row.ClaimedBy != "") != tt.sends {
					t.Errorf("due after %v, sent %d, leased by %q; want %v, %v",
						delay, snd.count(), row.ClaimedBy, tt.delay, tt.sends)
				}
				if tt.sends {
					snd.finish(snd.sent[0], model.Outcome{Kind: model.Acked})
				} else if o := outcome(t, r); o.Kind != model.Deferred {
					t.Errorf("outcome %v, want deferred", o)
				}
				closeNow(t, p)
			})
		})
	}
}

// A publish that finds its row stored is deferred, whatever became of the row: it is another call's, or a
// compensator's, and so is its lease.
func TestARepeatIsNeverSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, snd := newMemStore(), &fakeSender{}
		p := open(t, s, snd, nil)
		m := msg("k")
		m.ID = model.StableID("order-paid", "4711")
		if _, err := p.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			r, err := p.Publish(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			if snd.count() > 1 {
				t.Fatalf("%d sends of one id, want the first call's", snd.count())
			}
			if o := outcome(t, r); o.Kind != model.Deferred {
				t.Errorf("outcome of a repeat %v, want deferred", o)
			}
		}
		snd.finish(snd.sent[0], model.Outcome{Kind: model.Acked})
		closeNow(t, p)
	})
}

// slowStore takes its time for an INSERT.
type slowStore struct {
	*memStore
	takes time.Duration
}

func (s slowStore) Insert(ctx context.Context, drafts []model.Draft) ([]model.Stored, error) {
	time.Sleep(s.takes)
	return s.memStore.Insert(ctx, drafts)
}

// The time in which a row may be sent begins before its INSERT: the database may have set
// the lease at the beginning of a long one.
func TestLeaseIsCountedFromBeforeTheInsert(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		snd := &fakeSender{}
		p := open(t, slowStore{newMemStore(), 10 * time.Second}, snd, nil)
		begin := time.Now()
		if _, err := p.Publish(t.Context(), msg("k")); err != nil {
			t.Fatal(err)
		}
		if snd.count() != 1 {
			t.Fatalf("%d sends, want 1", snd.count())
		}
		if sent := snd.sent[0]; !sent.Since.Equal(begin) || sent.Within != publisher.DefaultSendBudget {
			t.Errorf("may be sent for %v from %v after Publish was called, want %v from 0",
				sent.Within, sent.Since.Sub(begin), publisher.DefaultSendBudget)
		}
		snd.finish(snd.sent[0], model.Outcome{Kind: model.Acked})
		closeNow(t, p)
	})
}

func TestPublishErrors(t *testing.T) {
	t.Parallel()
	s, snd := newMemStore(), &fakeSender{answer: func(confirms.Send) model.Outcome {
		return model.Outcome{Kind: model.Returned, Code: model.CodeNoRoute}
	}}
	p := open(t, s, snd, nil)
	first := msg("k")
	first.ID = model.NewID()
	if _, err := p.Publish(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	r, err := p.Publish(t.Context(), first)
	if err != nil || outcome(t, r).Kind != model.Deferred || snd.count() != 1 {
		t.Errorf("repeat: %v, %d sends; want a deferred receipt and one send", err, snd.count())
	}
	other := first
	other.Body = []byte("other")
	if _, err := p.Publish(t.Context(), other); !errors.Is(err, model.ErrConflict) {
		t.Errorf("other content: %v, want ErrConflict", err)
	}
	s.mu.Lock()
	row := s.rows[first.ID]
	row.Status = model.Dead
	s.rows[first.ID] = row
	s.mu.Unlock()
	if _, err := p.Publish(t.Context(), first); !errors.Is(err, model.ErrDead) {
		t.Errorf("dead: %v, want ErrDead", err)
	}
	s.err = &model.StoreError{Kind: model.ErrNotStored, Err: errDown}
	if _, err := p.Publish(t.Context(), msg("x")); !errors.Is(err, model.ErrNotStored) || !errors.Is(err, errDown) {
		t.Errorf("database down: %v, want ErrNotStored and its cause", err)
	}
	s.err = nil
	if _, err := p.Publish(t.Context(), msg(strings.Repeat("k", 256))); !errors.Is(err, model.ErrInvalid) {
		t.Errorf("long key: %v, want ErrInvalid", err)
	}
	if snd.held() != 0 {
		t.Errorf("%d units of room never given back", snd.held())
	}
	closeNow(t, p)
	if _, err := p.Publish(t.Context(), msg("x")); !errors.Is(err, model.ErrClosed) {
		t.Errorf("closed: %v, want ErrClosed", err)
	}
}

func TestPublishBatchIsOneUnit(t *testing.T) {
	t.Parallel()
	s, snd := newMemStore(), &fakeSender{answer: acked}
	p := open(t, s, snd, nil)
	defer closeNow(t, p)
	id := model.NewID()
	tests := []struct {
		name  string
		batch []model.Message
		index int
	}{
		{"bad message", []model.Message{msg("a"), {Exchange: "a\nb"}, msg("c")}, 1},
		{"same id twice", []model.Message{{ID: id, Exchange: "e"}, msg("b"), {ID: id, Exchange: "e"}}, 2},
	}
	for _, tt := range tests {
		_, err := p.PublishBatch(t.Context(), tt.batch)
		var inv *model.InvalidError
		if !errors.As(err, &inv) || inv.Index != tt.index {
			t.Errorf("%s: got %v, want an InvalidError at %d", tt.name, err, tt.index)
		}
	}
	if len(s.rows) != 0 || snd.count() != 0 {
		t.Errorf("%d rows and %d sends after refused batches, want none", len(s.rows), snd.count())
	}
	rs, err := p.PublishBatch(t.Context(), []model.Message{msg("a"), msg("b"), msg("c")})
	if err != nil || len(rs) != 3 {
		t.Fatalf("got %d receipts, %v", len(rs), err)
	}
	for _, r := range rs {
		if o := outcome(t, r); o.Kind != model.Acked {
			t.Errorf("outcome %v, want acked", o)
		}
	}
	if rs, err := p.PublishBatch(t.Context(), nil); rs != nil || err != nil {
		t.Errorf("empty batch: %v, %v", rs, err)
	}
}

// The message is copied: what the caller does to it afterwards changes nothing.
func TestPublishCopies(t *testing.T) {
	t.Parallel()
	s, snd := newMemStore(), &fakeSender{}
	p := open(t, s, snd, nil)
	m := msg("k")
	m.Headers = map[string]any{"n": []any{int64(1)}}
	if _, err := p.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	m.Body[0] = 'X'
	m.Headers["n"].([]any)[0] = int64(2)
	got := snd.sent[0].Message
	if got.Body[0] == 'X' || got.Headers["n"].([]any)[0] != int64(1) {
		t.Errorf("the sent message changed: %+v", got)
	}
	snd.finish(snd.sent[0], model.Outcome{Kind: model.Acked})
	closeNow(t, p)
}

// Close waits for what is in envelope, and says honestly what it did not wait for.
func TestC24_CloseDrainsOrSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, snd := newMemStore(), &fakeSender{}
		p := open(t, s, snd, nil)
		for range 3 {
			if _, err := p.Publish(t.Context(), msg("k")); err != nil {
				t.Fatal(err)
			}
		}
		snd.finish(snd.sent[0], model.Outcome{Kind: model.Acked})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := p.Close(ctx)
		if !errors.Is(err, model.ErrNotDrained) || !strings.Contains(err.Error(), "2 messages") {
			t.Errorf("got %v, want ErrNotDrained with 2 messages", err)
		}
		snd.finish(snd.sent[1], model.Outcome{Kind: model.Acked}) // late outcomes harm nobody
		snd.finish(snd.sent[2], model.Outcome{Kind: model.Acked})
	})
	synctest.Test(t, func(t *testing.T) {
		s, snd := newMemStore(), &fakeSender{}
		p := open(t, s, snd, nil)
		if _, err := p.Publish(t.Context(), msg("k")); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- p.Close(t.Context()) }()
		synctest.Wait()
		snd.finish(snd.sent[0], model.Outcome{Kind: model.Acked})
		if err := <-done; err != nil || len(s.rows) != 0 {
			t.Errorf("got %v with %d rows left, want a drained close", err, len(s.rows))
		}
	})
}

func TestPublisherSaysThatNobodyCompensates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var seen []time.Duration
		p := open(t, newMemStore(), &fakeSender{}, func(c *publisher.Config) {
			c.Observers = []publisher.Observer{{Lagging: func(d time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, d)
			}}}
		})
		time.Sleep(90 * time.Second) // fake time of the bubble
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(seen) != 1 || seen[0] != 6*time.Minute || p.Stats().OldestDue != 6*time.Minute {
			t.Errorf("seen %v, stats %+v; want one report of 6m", seen, p.Stats())
		}
		closeNow(t, p)
	})
}

// Err is nil for acked alone.
func TestH7_ReceiptErrIsNilOnlyWhenAcked(t *testing.T) {
	t.Parallel()
	for _, kind := range []model.OutcomeKind{
		model.Acked, model.Nacked, model.Returned, model.Refused, model.Unknown, model.Deferred,
	} {
		snd := &fakeSender{answer: func(confirms.Send) model.Outcome { return model.Outcome{Kind: kind} }}
		p := open(t, newMemStore(), snd, nil)
		r, err := p.Publish(t.Context(), msg("k"))
		if err != nil {
			t.Fatal(err)
		}
		err = r.Err(t.Context())
		if kind == model.Acked && err != nil || kind != model.Acked && !errors.Is(err, model.ErrNotAcked) {
			t.Errorf("%v: got %v", kind, err)
		}
		closeNow(t, p)
	}
	snd := &fakeSender{} // does not answer
	p := open(t, newMemStore(), snd, nil)
	r, err := p.Publish(t.Context(), msg("k"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Err(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error while the outcome is not known", err)
	}
	snd.finish(snd.sent[0], model.Outcome{Kind: model.Acked})
	if err := r.Err(ctx); err != nil {
		t.Errorf("got %v, want nil once it is known", err)
	}
	closeNow(t, p)
}
