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
)

var errHandler = errors.New("no funds")

func want(t *testing.T, what string, err error, answer string) {
	t.Helper()
	if got := kind(err); got != answer {
		t.Errorf("%s: %s (%v), want %s", what, got, err, answer)
	}
}

func TestASecondDeliveryIsSkipped(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		h := r.handler(r.once(t), nil)
		want(t, "first", h(t.Context(), message("x")), "nil")
		want(t, "second", h(t.Context(), message("x")), "skipped")
		want(t, "another", h(t.Context(), message("y\x00\xff")), "nil")
		want(t, "another again", h(t.Context(), message("y\x00\xff")), "skipped")
		if n := r.effects(t); n != 2 {
			t.Errorf("%d effects, want 2", n)
		}
	})
}

// TestAHandlersErrorRollsEverythingBack: also its record, so that the next attempt is no repeat.
func TestAHandlersErrorRollsEverythingBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		for name, answer := range map[string]error{
			"failed": errHandler, "permanent": consumer.Permanent(errHandler), "busy": consumer.Busy(errHandler),
			"unavailable": consumer.Unavailable(errHandler), "skipped": consumer.Skipped("nothing to do"),
		} {
			h := r.handler(r.once(t), func(context.Context, *sql.Tx) error { return answer })
			if err := h(t.Context(), message(name)); kind(err) != name || !errors.Is(err, answer) {
				t.Errorf("%s: got %v", name, err)
			}
			if r.done(t, name) {
				t.Errorf("%s: there is a record", name)
			}
		}
		want(t, "next attempt", r.handler(r.once(t), nil)(t.Context(), message("failed")), "nil")
		if n := r.effects(t); n != 1 {
			t.Errorf("%d effects, want 1", n)
		}
	})
}

func TestAPanicRollsBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		h := r.handler(r.once(t), func(context.Context, *sql.Tx) error { panic("boom") })
		func() {
			defer func() {
				if p := recover(); p != "boom" {
					t.Errorf("recovered %v, want the handler's panic", p)
				}
			}()
			_ = h(t.Context(), message("x"))
		}()
		if r.done(t, "x") || r.effects(t) != 0 {
			t.Error("something of a handler that panicked is there")
		}
	})
}

// TestSomebodyElseIsAtIt: the wait ends, it is busy and not failed, and after the other's end the record decides.
func TestSomebodyElseIsAtIt(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		h := r.handler(r.once(t), nil)
		inside, finish, first := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		slow := r.handler(r.once(t), func(context.Context, *sql.Tx) error {
			close(inside)
			<-finish
			return nil
		})
		go func() { first <- slow(t.Context(), message("x")) }()
		<-inside
		want(t, "while the other is at it", h(t.Context(), message("x")), "busy")
		close(finish)
		want(t, "the other", <-first, "nil")
		want(t, "afterwards", h(t.Context(), message("x")), "skipped")
		if n := r.effects(t); n != 1 {
			t.Errorf("%d effects, want 1", n)
		}
	})
}

func TestConsumersHaveAnEffectEach(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		mails := r.once(t, func(c *effect.Config) { c.Consumer = "mails" })
		want(t, "payments", r.handler(r.once(t), nil)(t.Context(), message("x")), "nil")
		want(t, "mails", r.handler(mails, nil)(t.Context(), message("x")), "nil")
		renamed := r.once(t, func(c *effect.Config) { c.Consumer, c.Formerly = "letters", []string{"mails"} })
		want(t, "renamed", r.handler(renamed, nil)(t.Context(), message("x")), "skipped")
		if n := r.effects(t); n != 2 {
			t.Errorf("%d effects, want 2", n)
		}
	})
}

// TestNoID: never a shared empty key.
func TestNoID(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		refusing := r.handler(r.once(t), nil)
		want(t, "by default", refusing(t.Context(), message("")), "permanent")
		unguarded := r.handler(r.once(t, func(c *effect.Config) { c.NoID = effect.NoIDUnguarded }), nil)
		want(t, "unguarded", unguarded(t.Context(), message("")), "nil")
		want(t, "unguarded again", unguarded(t.Context(), message("")), "nil")
		if n := r.effects(t); n != 2 {
			t.Errorf("%d effects, want 2", n)
		}
		keyed := r.once(t, func(c *effect.Config) {
			c.Key = func(m *consumer.Message) ([]byte, error) { return m.Body, nil }
		})
		m := message("")
		m.Body = []byte("order 7")
		want(t, "with a key", r.handler(keyed, nil)(t.Context(), m), "nil")
		want(t, "with a key again", r.handler(keyed, nil)(t.Context(), m), "skipped")
		m.Body = nil
		want(t, "with an empty key", r.handler(keyed, nil)(t.Context(), m), "permanent")
		if n := r.count(t, "SELECT COUNT(*) FROM trans_inbox"); n != 1 {
			t.Errorf("%d records, want 1", n)
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	r := newRigStore(t)
	for text, edit := range map[string]func(*effect.Config){
		"Consumer":           func(c *effect.Config) { c.Consumer = "a b" },
		"Store is required":  func(c *effect.Config) { c.Store = nil },
		"Wait 999ms must be": func(c *effect.Config) { c.Wait = 999 * time.Millisecond },
		"NoID 9":             func(c *effect.Config) { c.NoID = 9 },
	} {
		cfg := effect.Config{Consumer: "payments", Store: r}
		edit(&cfg)
		if _, err := effect.New(cfg); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want it to say %q", err, text)
		}
	}
}
