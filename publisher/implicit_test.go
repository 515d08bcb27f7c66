package publisher_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

// TestB5_ImplicitCommitIsTold: DDL in the caller's transaction has committed the first message, so
// the second is refused, and the first stays whatever is rolled back.
func TestB5_ImplicitCommitIsTold(t *testing.T) {
	t.Parallel()
	s := newStack(t, "mysql")
	db, _ := s.callersPool(t, "mysql")
	first, second := msg("k"), msg("k")
	first.ID, second.ID = model.NewID(), model.NewID()
	err := publisher.InTx(t.Context(), s.pub, db, nil, func(ctx context.Context, tx *sql.Tx, out *publisher.Tx) error {
		must(t, out.Publish(ctx, first))
		must(t, exec(ctx, tx, "CREATE TABLE own (n INT)"))
		if err := out.Publish(ctx, second); err == nil || !strings.Contains(err.Error(), "CREATE TABLE") {
			t.Errorf("publish after DDL: %v, want refused with the reason", err)
		}
		return nil
	})
	var stored *model.StoreError
	if !errors.Is(err, model.ErrStoreUnknown) || errors.Is(err, model.ErrNotStored) || !errors.As(err, &stored) ||
		len(stored.IDs) != 1 || stored.IDs[0] != first.ID || !strings.Contains(err.Error(), "stay") {
		t.Errorf("got %v, want that the first message stays", err)
	}
	rows := s.settled(t)
	if _, there := rows[first.ID]; !there || len(rows) != 1 {
		t.Errorf("%d rows, want the first message's", len(rows))
	}
}
