package gormstore_test

import (
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// TestSpreadNeverExceedsTheRate: due times rise, the ramp starts at a tenth and ends at the
// rate, and afterwards it is one row each 1/rate.
func TestSpreadNeverExceedsTheRate(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0.01, 1, 20, 5000} {
		gap := time.Duration(float64(time.Second) / rate)
		for i := range 20_000 {
			d := gormstore.Spread(i+1, rate) - gormstore.Spread(i, rate)
			if d < gap-time.Microsecond {
				t.Fatalf("rate %v: row %d is due %s after the one before, want at least %s", rate, i+1, d, gap)
			}
			if i > int(40*rate) && d > gap+time.Microsecond {
				t.Fatalf("rate %v: row %d is due %s after the one before, want %s", rate, i+1, d, gap)
			}
		}
		if got := gormstore.Spread(0, rate); got != 0 {
			t.Errorf("rate %v: the first row is due after %s, want now", rate, got)
		}
	}
	if got := gormstore.Spread(1000, 1e-300); got <= 0 {
		t.Errorf("an absurd rate overflows: %s", got)
	}
}

// TestActsOnDeadRowsReadNoOthers counts the rows that MySQL touches: a few DEAD rows among
// many READY ones must not cost a walk over all.
func TestActsOnDeadRowsReadNoOthers(t *testing.T) {
	t.Parallel()
	s := migrated(t, servers[0].dsn(t), gormstore.Options{MaxOpenConns: 1})
	fill(t, s, 3000)
	rows := batch(10)
	if _, err := s.Insert(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	list := make([]model.Settlement, len(rows))
	for i := range rows {
		list[i] = model.Settlement{ID: rows[i].ID, Status: model.Dead, Outcome: model.Outcome{Kind: model.Returned}}
	}
	if _, err := s.Settle(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	a := model.OperatorAct{
		Selection: model.Selection{Filter: model.Filter{Status: model.Dead, Exchange: "ex"}}, Actor: "ann",
	}
	for _, c := range []struct {
		name string
		call func() (int, error)
	}{
		{"select", func() (int, error) { p, err := s.Select(t.Context(), a.Selection); return p.Rows, err }},
		{"groups", func() (int, error) {
			g, err := s.Groups(t.Context(), model.Filter{})
			return len(g) * 10, err
		}},
		{"claim dead", func() (int, error) {
			r, err := s.ClaimDead(t.Context(), model.DeadClaim{Instance: "o", Lease: hour, MaxRows: 100})
			return len(r), err
		}},
		{"purge dead", func() (int, error) { n, err := s.PurgeDead(t.Context(), hour, 100); return n + 10, err }},
		{"replay", func() (int, error) { return s.Replay(t.Context(), a, 0) }},
	} {
		before := handlerReads(t, s)
		n, err := c.call()
		if err != nil || n != 10 {
			t.Errorf("%s: %d rows, %v, want 10", c.name, n, err)
		}
		if reads := handlerReads(t, s) - before; reads > 200 {
			t.Errorf("%s: 10 DEAD rows among 3000 READY ones read %d", c.name, reads)
		}
	}
}
