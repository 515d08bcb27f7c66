package main

import (
	"context"
	"testing"

	"gorm.io/gorm"

	"github.com/transmsg/transmsg"
	"github.com/transmsg/transmsg/publisher/gormtx"
	"github.com/transmsg/transmsg/transmsgtest"
)

// A test as a service would have it: scripts/cost.sh times its build.
func TestOrderIsAnnounced(t *testing.T) {
	t.Parallel()
	env := transmsgtest.New(t)
	err := gormtx.Transaction(t.Context(), env.Publisher, env.Gorm,
		func(ctx context.Context, _ *gorm.DB, out *transmsg.Tx) error {
			return out.Publish(ctx, transmsg.Message{Exchange: "orders", RoutingKey: "order.placed"})
		})
	if err != nil {
		t.Fatal(err)
	}
	env.RequireSent(t, "orders", "order.placed")
}
