package publisher_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/publisher/gormtx"
)

// waits stores a message by another process that has not sent it, and returns it.
func (s *stack) waits(t *testing.T, name string) model.Message {
	t.Helper()
	m := msg("k")
	m.ID, m.Body = model.StableID("order-paid", name), []byte(name)
	limits := model.Limits{MaxBody: 1 << 20, FrameMax: model.DefaultFrameMax}
	norm, err := model.Normalize(m, time.Now(), limits)
	must(t, err)
	row := model.NewTransMessage("orders", &norm, true)
	row.Epoch = model.NewEpoch()
	stored, err := s.store.Insert(t.Context(), []model.Draft{{TransMessage: row, Delay: time.Hour}})
	must(t, err)
	if stored[0] != model.StoredNew {
		t.Fatalf("%s: %v, want a new row", name, stored)
	}
	return m
}

func with(m model.Message, body string) model.Message {
	m.Body = []byte(body)
	return m
}

// wantIDs checks the ids of the error of one kind.
func wantIDs(t *testing.T, err, kind error, ids ...string) {
	t.Helper()
	if errors.Is(err, model.ErrTxMustRollBack) {
		t.Fatalf("got %v, want a transaction that goes on", err)
	}
	for _, e := range storeErrors(err) {
		if errors.Is(e.Kind, kind) {
			if !slices.Equal(e.IDs, ids) {
				t.Errorf("%v names %v, want %v", kind, e.IDs, ids)
			}
			return
		}
	}
	t.Errorf("got %v, want %v", err, kind)
}

// storeErrors are all that an error wraps.
func storeErrors(err error) (out []*model.StoreError) {
	switch e := err.(type) { //nolint:errorlint // each level of it is looked at
	case *model.StoreError:
		out = append(out, e)
	case interface{ Unwrap() error }:
		out = storeErrors(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			out = append(out, storeErrors(inner)...)
		}
	}
	return out
}

// TestA3_AHandlerDeliveredAgainSucceeds: the first row waits still, and the handler publishes the
// same message again in a transaction. It commits, and nobody's row is sent a second time.
func TestA3_AHandlerDeliveredAgainSucceeds(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *stack) {
		m := s.waits(t, "4711")
		db, gdb := s.callersPool(t, s.dialect)
		ctx := t.Context()
		err := publisher.InTx(ctx, s.pub, db, nil, func(ctx context.Context, _ *sql.Tx, out *publisher.Tx) error {
			return out.Publish(ctx, m)
		})
		must(t, err)
		err = gormtx.Transaction(ctx, s.pub, gdb, func(ctx context.Context, tx *gorm.DB, out *publisher.Tx) error {
			return tx.Transaction(func(*gorm.DB) error { return out.Publish(ctx, msg("k"), m) })
		})
		must(t, err)
		tx, err := db.BeginTx(ctx, nil)
		must(t, err)
		out := s.pub.Tx(tx)
		must(t, out.Publish(ctx, m, msg("k")))
		rs, err := out.Commit(ctx, tx.Commit)
		must(t, err)
		if len(rs) != 2 || rs[0].ID() != m.ID {
			t.Fatalf("got %d receipts, want that of the repeat and one more", len(rs))
		}
		if o := outcome(t, rs[0]); o.Kind != model.Deferred || !strings.Contains(o.Text, "stored before") {
			t.Errorf("the repeat: %v, want deferred, stored before", o)
		}
		again, err := s.pub.Publish(ctx, m)
		must(t, err)
		if o := outcome(t, again); o.Kind != model.Deferred || !strings.Contains(o.Text, "stored before") {
			t.Errorf("outside of a transaction: %v, want the same", o)
		}
		rows := s.settled(t)
		if len(rows) != 1 || rows[m.ID].Version != 0 {
			t.Errorf("rows %v, want the first one untouched", rows)
		}
		if got, err := s.broker.Drain("q1"); err != nil || len(got) != 2 {
			t.Errorf("%d messages (%v), want the two new ones", len(got), err)
		}
	})
}

// TestA3_AConflictLeavesTheTransactionUsable: other content and a DEAD row are told apart with
// their ids, their neighbours of the same call are stored, and the transaction goes on.
func TestA3_AConflictLeavesTheTransactionUsable(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *stack) {
		equal, other, dead := s.waits(t, "equal"), s.waits(t, "other"), s.waits(t, "dead")
		db, _ := s.callersPool(t, s.dialect)
		_, err := db.ExecContext(t.Context(), "UPDATE trans_message SET status = 'DEAD' WHERE id = '"+dead.ID+"'")
		must(t, err)
		call := func() []model.Message { return []model.Message{msg("k"), with(other, "x"), equal, msg("k"), dead} }

		_, err = s.pub.PublishBatch(t.Context(), call())
		wantIDs(t, err, model.ErrConflict, other.ID)
		wantIDs(t, err, model.ErrDead, dead.ID)

		err = publisher.InTx(t.Context(), s.pub, db, nil,
			func(ctx context.Context, tx *sql.Tx, out *publisher.Tx) error {
				err := out.TryPublish(ctx, call()...)
				wantIDs(t, err, model.ErrConflict, other.ID)
				wantIDs(t, err, model.ErrDead, dead.ID)
				return errors.Join(exec(ctx, tx, "DELETE FROM trans_message_event"), out.Publish(ctx, msg("k"), equal))
			})
		must(t, err)
		err = publisher.InTx(t.Context(), s.pub, db, nil,
			func(ctx context.Context, _ *sql.Tx, out *publisher.Tx) error {
				_ = out.Publish(ctx, with(other, "x"))
				return nil
			})
		if !errors.Is(err, model.ErrNotStored) || !errors.Is(err, model.ErrConflict) {
			t.Errorf("a conflict that the handler dropped: %v, want a refused commit that names it", err)
		}
		if rows := s.settled(t); len(rows) != 3 {
			t.Errorf("%d rows, want the three of the others", len(rows))
		}
		if got, err := s.broker.Drain("q1"); err != nil || len(got) != 1 {
			t.Errorf("%d messages (%v), want the one that was committed", len(got), err)
		}
	})
}

// TestA3_ATransactionKnowsItsOwnRows: no other connection sees what the transaction itself stored.
func TestA3_ATransactionKnowsItsOwnRows(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *stack) {
		m := msg("k")
		m.ID, m.Body = model.NewID(), []byte("first")
		db, _ := s.callersPool(t, s.dialect)
		undo := errors.New("undo")
		err := publisher.InTx(t.Context(), s.pub, db, nil,
			func(ctx context.Context, tx *sql.Tx, out *publisher.Tx) error {
				must(t, out.Publish(ctx, m))
				must(t, out.Publish(ctx, m, msg("k")))
				wantIDs(t, out.TryPublish(ctx, msg("k"), with(m, "second")), model.ErrConflict, m.ID)

				n := msg("k")
				n.ID = model.NewID()
				err := out.Savepoint(ctx, func() error { return errors.Join(out.Publish(ctx, with(n, "gone")), undo) })
				if !errors.Is(err, undo) {
					return err
				}
				must(t, out.Publish(ctx, with(n, "n")))
				must(t, out.Publish(ctx, with(n, "n")))
				must(t, exec(ctx, tx, "SAVEPOINT unseen"))
				o := msg("k")
				o.ID = model.NewID()
				must(t, out.Publish(ctx, with(o, "gone")))
				must(t, exec(ctx, tx, "ROLLBACK TO SAVEPOINT unseen"))
				return errors.Join(out.Publish(ctx, with(o, "o")), out.Publish(ctx, with(o, "o"), m))
			})
		must(t, err)
		if rows := s.settled(t); len(rows) != 0 {
			t.Errorf("rows left: %v", rows)
		}
		got, err := s.broker.Drain("q1")
		must(t, err)
		bodies := make([]string, len(got))
		for i, d := range got {
			bodies[i] = string(d.Body)
		}
		slices.Sort(bodies)
		if want := []string{"body of k", "first", "n", "o"}; !slices.Equal(bodies, want) {
			t.Errorf("messages %q, want %q", bodies, want)
		}
	})
}

// TestA3_PostgresAtRepeatableRead: a row that a rival stored after the snapshot ends the
// transaction there; one from before is told as always.
func TestA3_PostgresAtRepeatableRead(t *testing.T) {
	t.Parallel()
	s := newStack(t, "postgres")
	old := s.waits(t, "old")
	db, _ := s.callersPool(t, "postgres")
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
		must(t, err)
		must(t, exec(t.Context(), tx, "SELECT 1"))
		fresh := s.waits(t, level.String())
		out := s.pub.Tx(tx)
		must(t, out.Publish(t.Context(), old))
		wantIDs(t, out.TryPublish(t.Context(), with(old, "x")), model.ErrConflict, old.ID)
		err = out.Publish(t.Context(), fresh)
		var pg *pgconn.PgError
		if !errors.Is(err, model.ErrTxMustRollBack) || !errors.As(err, &pg) || pg.Code != "40001" {
			t.Errorf("%v: got %v, want ErrTxMustRollBack around 40001", level, err)
		}
		if _, err := out.Commit(t.Context(), tx.Commit); !errors.Is(err, model.ErrNotStored) {
			t.Errorf("%v: commit: %v, want it refused", level, err)
		}
	}
}
