package publisher_test

import (
	"context"
	"errors"
	"testing"

	"gorm.io/gorm"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/publisher/gormtx"
)

// TestB4_SavepointsWhereGormPrepares: MySQL prepares no SAVEPOINT (1295). Run it there too:
// TRANSMSG_TEST_MYSQL_DSN, see scripts/engines.sh.
func TestB4_SavepointsWhereGormPrepares(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *stack) {
		_, plain := s.callersPool(t, s.dialect)
		must(t, plain.Use(gormtx.Guard{}))
		db := plain.Session(&gorm.Session{PrepareStmt: true})
		kept, tried, undone, nested := msg("k"), msg("k"), msg("k"), msg("k")
		for _, m := range []*model.Message{&kept, &tried, &undone, &nested} {
			m.ID = model.NewID()
		}
		undo := errors.New("undo")
		err := gormtx.Transaction(t.Context(), s.pub, db,
			func(ctx context.Context, tx *gorm.DB, out *publisher.Tx) error {
				must(t, out.Publish(ctx, kept))
				must(t, out.TryPublish(ctx, tried))
				err := out.Savepoint(ctx, func() error { return errors.Join(out.Publish(ctx, undone), undo) })
				if !errors.Is(err, undo) || errors.Is(err, model.ErrTxMustRollBack) {
					t.Errorf("a savepoint that is undone: %v", err)
				}
				err = tx.Transaction(func(*gorm.DB) error { return errors.Join(out.Publish(ctx, nested), undo) })
				if !errors.Is(err, undo) || errors.Is(err, model.ErrTxMustRollBack) {
					t.Errorf("a nested transaction that is undone: %v", err)
				}
				return nil
			})
		must(t, err)
		if rows := s.settled(t); len(rows) != 0 {
			t.Errorf("rows are left: %+v", rows)
		}
		got, err := s.broker.Drain("q1")
		must(t, err)
		if len(got) != 2 || got[0].MessageId != kept.ID || got[1].MessageId != tried.ID {
			t.Errorf("got %+v, want the two that were not undone", got)
		}
	})
}
