package transmsgtest_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"gorm.io/gorm"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/publisher/gormtx"
	"github.com/transmsg/transmsg/transmsgtest"
)

var errNoStock = errors.New("no stock")

// placeOrder is the code under test of these examples.
func placeOrder(ctx context.Context, db *sql.DB, pub *publisher.Publisher, number string, fail error) error {
	return publisher.InTx(ctx, pub, db, nil, func(ctx context.Context, _ *sql.Tx, out *publisher.Tx) error {
		msg := model.Message{Exchange: "orders", RoutingKey: "order.placed", Key: number, Body: []byte(number)}
		if err := out.Publish(ctx, msg); err != nil {
			return err
		}
		return fail
	})
}

func TestOrderIsAnnounced(t *testing.T) {
	t.Parallel()
	env := transmsgtest.New(t)
	if err := placeOrder(t.Context(), env.DB, env.Publisher, "4711", nil); err != nil {
		t.Fatal(err)
	}
	msg := env.RequireSent(t, "orders", "order.placed")
	if string(msg.Body) != "4711" || msg.Key != "4711" {
		t.Errorf("got %+v", msg)
	}
	env.RequireNothingStored(t)
}

func TestFailedOrderIsNot(t *testing.T) {
	t.Parallel()
	env := transmsgtest.New(t)
	if err := placeOrder(t.Context(), env.DB, env.Publisher, "4711", errNoStock); !errors.Is(err, errNoStock) {
		t.Fatalf("got %v, want the function's own error", err)
	}
	env.RequireNothingSent(t)
	env.RequireNothingStored(t)
}

func TestUnroutableOrderIsKept(t *testing.T) {
	t.Parallel()
	env := transmsgtest.New(t)
	env.Broker.Return("orders", "order.placed")
	if err := placeOrder(t.Context(), env.DB, env.Publisher, "4711", nil); err != nil {
		t.Fatal(err)
	}
	row := env.RequireStored(t, "orders", "order.placed")
	if row.Status != model.Ready || row.LastCode != model.CodeNoRoute || row.Attempts != 1 || row.MessageKey != "4711" {
		t.Errorf("got %+v", row)
	}
}

func TestOutageDefers(t *testing.T) {
	t.Parallel()
	env := transmsgtest.New(t)
	env.Broker.Down()
	r, err := env.Publisher.Publish(t.Context(), model.Message{Exchange: "orders", RoutingKey: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := r.Wait(t.Context()); err != nil || o.Kind != model.Deferred {
		t.Errorf("got %v, %v; want deferred", o, err)
	}
	env.RequireNothingSent(t)
	if row := env.RequireStored(t, "orders", "x"); row.Attempts != 0 || row.Failures != 0 {
		t.Errorf("an outage was counted: %+v", row)
	}
}

func TestGormSavepoint(t *testing.T) {
	t.Parallel()
	env := transmsgtest.New(t)
	order := func(_ context.Context, tx *gorm.DB, out *publisher.Tx) error {
		if err := out.Publish(t.Context(), model.Message{Exchange: "orders", RoutingKey: "kept"}); err != nil {
			return err
		}
		err := tx.Transaction(func(*gorm.DB) error {
			if err := out.Publish(t.Context(), model.Message{Exchange: "orders", RoutingKey: "undone"}); err != nil {
				return err
			}
			return errNoStock
		})
		if !errors.Is(err, errNoStock) {
			return err
		}
		return nil
	}
	if err := gormtx.Transaction(t.Context(), env.Publisher, env.Gorm, order); err != nil {
		t.Fatal(err)
	}
	env.RequireSent(t, "orders", "kept")
	if n := len(env.Broker.Sent()); n != 1 {
		t.Errorf("%d messages sent, want 1: the savepoint was rolled back", n)
	}
	env.RequireNothingStored(t)
}
