package effect_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/consumer/effect"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/transmsgtest"
)

// provider charges once for each key.
type provider struct {
	calls int
	keys  map[string]bool
	after error // fails after having charged
}

func (p *provider) charge(_ context.Context, _ *consumer.Message, key string) (string, error) {
	p.calls++
	if p.keys == nil {
		p.keys = map[string]bool{}
	}
	p.keys[key] = true
	return "receipt of " + key, p.after
}

// TestCallThenTx: the provider fails after having charged, then the transaction fails: one charge, one effect.
func TestCallThenTx(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		once, p := r.once(t), &provider{after: errHandler}
		var failTx error
		h := effect.CallThenTx(once, r.db, nil, p.charge,
			func(ctx context.Context, tx *sql.Tx, _ *publisher.Tx, m *consumer.Message, receipt string) error {
				if receipt != "receipt of payments/x" {
					t.Errorf("got %q", receipt)
				}
				return errors.Join(insert(ctx, tx, m), failTx)
			})
		want(t, "the provider fails", h(t.Context(), message("x")), "failed")
		p.after, failTx = nil, errHandler
		want(t, "the transaction fails", h(t.Context(), message("x")), "failed")
		failTx = nil
		want(t, "nothing fails", h(t.Context(), message("x")), "nil")
		want(t, "again", h(t.Context(), message("x")), "skipped")
		if p.calls != 3 || len(p.keys) != 1 || r.effects(t) != 1 {
			t.Errorf("%d calls with %d keys, %d effects; want 3, 1, 1", p.calls, len(p.keys), r.effects(t))
		}
		want(t, "no id", h(t.Context(), message("")), "permanent")
	})
}

// TestNoCallInsideATransaction: it would hold locks, and could not be undone.
func TestNoCallInsideATransaction(t *testing.T) {
	t.Parallel()
	env, p := transmsgtest.New(t), &provider{}
	h := effect.CallThenTx(env.Once(t, "payments"), env.DB, nil, p.charge, nil)
	err := publisher.InTx(t.Context(), env.Publisher, env.DB, nil,
		func(ctx context.Context, _ *sql.Tx, _ *publisher.Tx) error { return h(ctx, message("x")) })
	if !errors.Is(err, effect.ErrInTx) || p.calls != 0 {
		t.Errorf("got %v and %d calls, want ErrInTx and none", err, p.calls)
	}
}

// TestASlowHandlersMessagesAreSent: right after the commit, although the send budget is over.
func TestASlowHandlersMessagesAreSent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		broker := &transmsgtest.Broker{}
		pub, err := publisher.Open(publisher.Config{
			Service: "payments", Store: r.store, Sender: broker, SendBudget: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := pub.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
		once := r.once(t, func(c *effect.Config) { c.Publisher = pub })
		h := once.InTx(r.db, nil, func(ctx context.Context, tx *sql.Tx, out *publisher.Tx, m *consumer.Message) error {
			err := out.Publish(ctx, model.Message{Exchange: "payments", RoutingKey: "paid"})
			time.Sleep(1500 * time.Millisecond) // the handler's work
			return errors.Join(err, insert(ctx, tx, m))
		})
		want(t, "slow", h(t.Context(), message("x")), "nil")
		if n := len(broker.Sent()); n != 1 {
			t.Errorf("%d messages are sent when the handler has returned, want 1", n)
		}
		want(t, "again", h(t.Context(), message("x")), "skipped")
		if n := len(broker.Sent()); n != 1 || r.effects(t) != 1 {
			t.Errorf("%d messages and %d effects, want 1 each", n, r.effects(t))
		}
	})
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	store := newRigStore(t)
	key := func(cfg effect.Config, id string) string {
		cfg.Store = store
		once, err := effect.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		k, err := once.IdempotencyKey(message(id))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	pay := effect.Config{Consumer: "payments"}
	if got := key(pay, "0192-x"); got != "payments/0192-x" {
		t.Errorf("got %q", got)
	}
	renamed := effect.Config{Consumer: "charges", Formerly: []string{"payments"}}
	if got := key(renamed, "0192-x"); got != "payments/0192-x" {
		t.Errorf("renamed: got %q, want the key of calls that went out before", got)
	}
	for _, id := range []string{"a b", "\xff", "\n", strings.Repeat("x", 92)} {
		if got := key(pay, id); len(got) != 36 || got == key(effect.Config{Consumer: "refunds"}, id) {
			t.Errorf("%q: got %q, want a UUID of this consumer's", id, got)
		}
	}
}
