package transmsgtest_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/consumer/effect"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/transmsgtest"
)

// pay is the code under test: a payment and its message in one transaction.
func pay(once *effect.Once, db *sql.DB, fail error) consumer.Handler {
	return once.InTx(db, nil, func(ctx context.Context, tx *sql.Tx, out *publisher.Tx, m *consumer.Message) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO payments (number) VALUES (?)", string(m.Body)); err != nil {
			return err
		}
		if err := out.Publish(ctx, model.Message{Exchange: "payments", RoutingKey: "paid", Body: m.Body}); err != nil {
			return err
		}
		return fail
	})
}

func paid(t *testing.T, env *transmsgtest.Env) (n int) {
	t.Helper()
	if err := env.DB.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM payments").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPaymentIsMadeOnce(t *testing.T) {
	t.Parallel()
	env := transmsgtest.New(t)
	if _, err := env.DB.ExecContext(t.Context(), "CREATE TABLE payments (number TEXT)"); err != nil {
		t.Fatal(err)
	}
	once, m := env.Once(t, "payments"), consumer.Message{ID: "order-4711", Body: []byte("4711")}
	if err := env.Deliver(t.Context(), pay(once, env.DB, errNoStock), m); err == nil || consumer.IsSkipped(err) {
		t.Fatalf("got %v, want the handler's error", err)
	}
	env.RequireNotDone(t, "payments", m.ID)
	env.RequireNothingSent(t)
	handler := pay(once, env.DB, nil)
	if err := env.Deliver(t.Context(), handler, m); err != nil {
		t.Fatal(err)
	}
	env.RequireDone(t, "payments", m.ID)
	if err := env.Deliver(t.Context(), handler, m); !consumer.IsSkipped(err) {
		t.Errorf("the second delivery got %v, want it skipped", err)
	}
	if n := paid(t, env); n != 1 {
		t.Errorf("%d payments, want 1", n)
	}
	env.RequireSent(t, "payments", "paid")
}
