package publisher_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

const hours3 = 3 * time.Hour

// skewedStack is a stack whose database's clock is off by so much.
func skewedStack(t *testing.T, dialect string, by time.Duration) *stack {
	t.Helper()
	if dialect == "mysql" {
		return newStackOn(t, dialect, dbtest.SkewMySQL(dbtest.MySQL(t), by))
	}
	dsn, err := dbtest.SkewPostgres(t.Context(), dbtest.Postgres(t), by)
	must(t, err)
	return newStackOn(t, dialect, dsn)
}

// A NotBefore is an instant of the database's clock: a process whose clock is hours off
// neither sends early nor holds back, by Publish and in a transaction.
func TestD2_TheDatabasesClockDecidesNotBefore(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		ahead     time.Duration // the database's clock, of this process's
		notBefore time.Duration // by this process's clock, from now on
		left      time.Duration
	}{
		{"passed by the database's clock", hours3, time.Hour, 0},
		{"passed by the process's clock alone", -hours3, -time.Hour, 2 * time.Hour},
	}
	for _, dialect := range []string{"mysql", "postgres"} {
		for _, tt := range tests {
			for _, inTx := range []bool{false, true} {
				name := dialect + " " + tt.name
				if inTx {
					name += " in a transaction"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					s := skewedStack(t, dialect, tt.ahead)
					m := msg("k")
					m.NotBefore = time.Now().Add(tt.notBefore)
					r := s.publishOne(t, m, inTx)
					if o := outcome(t, r); o.Kind != model.Deferred {
						t.Errorf("outcome %v, want deferred: the publisher cannot know when it is due", o)
					}
					must(t, s.pub.Close(t.Context())) // what was to be written is
					states, err := s.store.ReadBack(t.Context(), []string{r.ID()})
					must(t, err)
					state, ok := states[r.ID()]
					if off := state.LeaseLeft - tt.left; !ok || tt.left > 0 && off.Abs() > time.Minute ||
						tt.left == 0 && state.LeaseLeft > 0 {
						t.Errorf("stored %v, due in %v, want in %v", ok, state.LeaseLeft, tt.left)
					}
				})
			}
		}
	}
}

// publishOne publishes a message by Publish or in a transaction.
func (s *stack) publishOne(t *testing.T, m model.Message, inTx bool) *publisher.Receipt {
	t.Helper()
	if !inTx {
		r, err := s.pub.Publish(t.Context(), m)
		must(t, err)
		return r
	}
	driver := map[string]string{"mysql": "mysql", "postgres": "pgx"}[s.dialect]
	db, err := sql.Open(driver, s.dsn)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	out := s.pub.Tx(tx)
	must(t, out.Publish(t.Context(), m))
	receipts, err := out.Commit(t.Context(), tx.Commit)
	must(t, err)
	return receipts[0]
}
