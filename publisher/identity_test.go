package publisher_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"gorm.io/gorm"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/publisher/gormtx"
)

// TestA1_OfTwoRowsWithOneIDTheCommittedOneIsSent: a message stored in a savepoint that was
// rolled back by SQL text, which the Tx does not see, and another one with the same id
// after it. The second is sent, with its own body, and its row goes with its own ack.
func TestA1_OfTwoRowsWithOneIDTheCommittedOneIsSent(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *stack) {
		a, b := msg("k"), msg("k")
		a.ID, b.ID = model.NewID(), ""
		b.ID = a.ID
		a.Body, b.Body = []byte("rolled back"), []byte("committed")
		db, _ := s.callersPool(t, s.dialect)
		err := publisher.InTx(t.Context(), s.pub, db, nil,
			func(ctx context.Context, tx *sql.Tx, out *publisher.Tx) error {
				return errors.Join(
					exec(ctx, tx, "SAVEPOINT one"), out.Publish(ctx, a), exec(ctx, tx, "ROLLBACK TO SAVEPOINT one"),
					out.Publish(ctx, b),
				)
			})
		must(t, err)
		s.wantOnly(t, a.ID, "committed")
	})
}

// TestA1_GormNestedTransactionsToo is the same through gorm's own savepoints.
func TestA1_GormNestedTransactionsToo(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *stack) {
		a, b := msg("k"), msg("k")
		a.ID = model.NewID()
		b.ID = a.ID
		a.Body, b.Body = []byte("rolled back"), []byte("committed")
		_, db := s.callersPool(t, s.dialect)
		undo := errors.New("undo")
		err := gormtx.Transaction(t.Context(), s.pub, db,
			func(ctx context.Context, tx *gorm.DB, out *publisher.Tx) error {
				err := tx.Transaction(func(*gorm.DB) error {
					return errors.Join(out.Publish(ctx, a), undo)
				})
				if !errors.Is(err, undo) {
					return err
				}
				return out.Publish(ctx, b)
			})
		must(t, err)
		s.wantOnly(t, a.ID, "committed")
	})
}

func exec(ctx context.Context, tx *sql.Tx, query string) error {
	_, err := tx.ExecContext(ctx, query)
	return err
}

// wantOnly waits until the row with the id is gone and wants one delivery with the body.
func (s *stack) wantOnly(t *testing.T, id, body string) {
	t.Helper()
	if rows := s.settled(t); len(rows) != 0 {
		t.Errorf("rows are left: %+v", rows)
	}
	got, err := s.broker.Drain("q1")
	must(t, err)
	if len(got) != 1 || got[0].MessageId != id || string(got[0].Body) != body {
		t.Errorf("delivered %d messages, want one with the body %q: %+v", len(got), body, got)
	}
}
