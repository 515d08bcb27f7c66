package transmsgtest

import (
	"context"
	"testing"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/consumer/effect"
	"github.com/transmsg/transmsg/model"
)

// Once returns what makes a consumer's handlers on this database and publisher, for the code under test:
//
//	handler := payments.Handler(env.Once(t, "payments"), env.DB)
//	err := env.Deliver(handler, consumer.Message{ID: "018f...", Body: body})
func (e *Env) Once(tb testing.TB, name string) *effect.Once {
	tb.Helper()
	once, err := effect.New(effect.Config{Consumer: name, Store: e.store, Publisher: e.Publisher})
	if err != nil {
		tb.Fatalf("transmsgtest: %v", err)
	}
	return once
}

// Deliver hands a message to a handler, as a consumer would, and returns its answer: nil, an error, or what
// consumer.IsSkipped, IsPermanent, IsBusy and IsUnavailable recognise. What is empty is as at a first delivery. A
// second call with the same message is a redelivery.
func (e *Env) Deliver(ctx context.Context, h consumer.Handler, m consumer.Message) error {
	if m.Queue == "" {
		m.Queue = "test"
	}
	m.Attempt, m.MaxAttempts = max(m.Attempt, 1), max(m.MaxAttempts, m.Attempt, 1)
	return h(ctx, &m)
}

// RequireDone fails the test unless the consumer has the message's record: its effect is committed.
func (e *Env) RequireDone(tb testing.TB, name, id string) {
	tb.Helper()
	if !e.done(tb, name, id) {
		tb.Fatalf("transmsgtest: consumer %s has no record of message %q", name, id)
	}
}

// RequireNotDone fails the test if the consumer has the message's record.
func (e *Env) RequireNotDone(tb testing.TB, name, id string) {
	tb.Helper()
	if e.done(tb, name, id) {
		tb.Fatalf("transmsgtest: consumer %s has a record of message %q", name, id)
	}
}

func (e *Env) done(tb testing.TB, name, id string) bool {
	tb.Helper()
	done, err := e.store.Recorded(context.Background(), model.InboxRecord{Consumer: name, Key: []byte(id)})
	if err != nil {
		tb.Fatalf("transmsgtest: %v", err)
	}
	return done
}
