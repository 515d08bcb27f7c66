package effect_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/consumer/effect"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/store/gormstore"
)

func newRigStore(t *testing.T) *gormstore.Store {
	t.Helper()
	s, err := anystore.Migrated(t.Context(), "sqlite::memory:", gormstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestADeadlockIsBusy: two handlers lock two accounts in opposite order; the victim is given back, whatever it wraps
// around the error, and has its effect at the next delivery.
func TestADeadlockIsBusy(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		met := make(chan struct{}, 2)
		other := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
		lock := func(mine, first, second string) consumer.Handler {
			return r.handler(r.once(t), func(ctx context.Context, tx *sql.Tx) error {
				const book = "UPDATE accounts SET total = total + 1 WHERE id = "
				if _, err := tx.ExecContext(ctx, book+first); err != nil {
					return err
				}
				met <- struct{}{}
				<-other[mine]
				_, err := tx.ExecContext(ctx, book+second)
				if err != nil {
					err = fmt.Errorf("book: %w", err)
				}
				return err
			})
		}
		answers := make(chan error, 2)
		go func() { answers <- lock("a", "1", "2")(t.Context(), message("a")) }()
		go func() { answers <- lock("b", "2", "1")(t.Context(), message("b")) }()
		<-met
		<-met
		close(other["a"])
		close(other["b"])
		one, two := kind(<-answers), kind(<-answers)
		if one+two != "nilbusy" && one+two != "busynil" {
			t.Errorf("got %s and %s, want nil and busy", one, two)
		}
		for _, id := range []string{"a", "b"} {
			_ = r.handler(r.once(t), nil)(t.Context(), message(id))
		}
		if n := r.effects(t); n != 2 {
			t.Errorf("%d effects, want 2", n)
		}
	})
}

// TestALostConnectionIsUnavailable: killed under the handler, whatever error that makes of it.
func TestALostConnectionIsUnavailable(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		for _, shown := range []bool{true, false} {
			h := r.handler(r.once(t), func(ctx context.Context, tx *sql.Tx) error {
				kill := map[string][2]string{
					"mysql": {"SELECT CONNECTION_ID()", "KILL %d"},
					"pgx":   {"SELECT pg_backend_pid()", "SELECT pg_terminate_backend(%d, 5000)"},
				}[r.dialect]
				var id int
				if err := tx.QueryRowContext(ctx, kill[0]).Scan(&id); err != nil {
					return err
				}
				r.exec(t, fmt.Sprintf(kill[1], id))
				_, err := tx.ExecContext(ctx, "UPDATE accounts SET total = 1 WHERE id = 1")
				if err == nil {
					t.Error("the connection lives")
				}
				if shown {
					return err
				}
				return errHandler
			})
			want(t, fmt.Sprint("killed, shown: ", shown), h(t.Context(), message("x")), "unavailable")
		}
		want(t, "afterwards", r.handler(r.once(t), nil)(t.Context(), message("x")), "nil")
		if n := r.effects(t); n != 1 {
			t.Errorf("%d effects, want 1", n)
		}
	})
}

// TestAnotherServersErrorIsTheHandlers: a provider that is away is not our database.
func TestAnotherServersErrorIsTheHandlers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		h := r.handler(r.once(t), func(context.Context, *sql.Tx) error {
			return &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		})
		want(t, "provider away", h(t.Context(), message("x")), "failed")
	})
}

func TestADatabaseThatIsAwayIsUnavailable(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		away, err := sql.Open(r.dialect, map[string]string{
			"mysql": "root@tcp(127.0.0.1:1)/x", "pgx": "postgres://postgres@127.0.0.1:1/x?sslmode=disable",
		}[r.dialect])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = away.Close() })
		h := r.once(t).InTx(away, nil, func(context.Context, *sql.Tx, *publisher.Tx, *consumer.Message) error {
			t.Error("the handler is called")
			return nil
		})
		want(t, "away", h(t.Context(), message("x")), "unavailable")
		r.exec(t, "DROP TABLE trans_inbox")
		want(t, "without its table", r.handler(r.once(t), nil)(t.Context(), message("x")), "unavailable")
	})
}

// TestAnOverlookedDeadlockIsNoSuccess: InnoDB has rolled the record back, and the commit says nil.
func TestAnOverlookedDeadlockIsNoSuccess(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		h := r.handler(r.once(t), func(ctx context.Context, tx *sql.Tx) error {
			end := "ROLLBACK" // as a deadlock does on InnoDB
			if r.dialect == "pgx" {
				end = "SELECT nonsense"
			}
			_, _ = tx.ExecContext(ctx, end)
			return nil
		})
		err := h(t.Context(), message("x"))
		if err == nil || consumer.IsSkipped(err) {
			t.Errorf("got %v, want no success", err)
		}
		if r.done(t, "x") {
			t.Error("there is a record")
		}
	})
}

// TestCountRedelivery: the count stays when the handler's transaction does not.
func TestCountRedelivery(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r *rig) {
		once := r.once(t)
		counters := effect.Counters{"pay": once}
		fails := r.handler(once, func(context.Context, *sql.Tx) error { return errHandler })
		for want := 1; want <= 3; want++ {
			if n, err := counters.CountRedelivery(t.Context(), message("x")); err != nil || n != want {
				t.Errorf("counted %d, %v, want %d", n, err, want)
			}
			_ = fails(t.Context(), message("x"))
		}
		again := message("x")
		again.Replays = 1
		if n, err := counters.CountRedelivery(t.Context(), again); err != nil || n != 1 {
			t.Errorf("after a replay counted %d, %v, want 1", n, err)
		}
		want(t, "at last", r.handler(once, nil)(t.Context(), message("x")), "nil")
		if n, err := counters.CountRedelivery(t.Context(), again); err != nil || n != 0 {
			t.Errorf("of what is done counted %d, %v, want 0", n, err)
		}
		for _, m := range []*consumer.Message{message(""), {Queue: "other", ID: "x"}} {
			if _, err := counters.CountRedelivery(t.Context(), m); !errors.Is(err, consumer.ErrNotCounted) {
				t.Errorf("%+v: got %v, want ErrNotCounted", m, err)
			}
		}
	})
}
