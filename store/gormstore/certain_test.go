package gormstore_test

import (
	"errors"
	"math"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	mysqldrv "github.com/go-sql-driver/mysql"

	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// lying opens a store behind l, on a schema of its own, and one that sees the truth.
func lying(t *testing.T, l *liar, o gormstore.Options) (behind, truth *gormstore.Store) {
	t.Helper()
	var dsn, through string
	if l.postgres {
		dsn = dbtest.Postgres(t)
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		u.Host = startLiar(t, u.Host, l)
		through = u.String()
	} else {
		dsn = dbtest.MySQL(t)
		c, err := mysqldrv.ParseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		c.Addr = startLiar(t, c.Addr, l)
		through = c.FormatDSN()
	}
	truth = migrated(t, dsn, gormstore.Options{})
	behind, err := anystore.Open(t.Context(), through, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = behind.Close() })
	return behind, truth
}

func liars() map[string]*liar {
	out := map[string]*liar{}
	for _, n := range []uint16{1053, 1105, 1180, 1317, 1927, 2003, 2006, 2013, 9001, 9999} {
		out["mysql "+strconv.Itoa(int(n))] = &liar{number: n}
	}
	for _, code := range []string{"08P01", "57014", "57P01", "57P03", "53300", "58000", "ZZ999"} {
		out["postgres "+code] = &liar{postgres: true, code: code}
	}
	return out
}

// TestB1_UnlistedErrorsAreUnknown: a proxy passes the INSERT on and always answers with an error.
// The row exists, so nobody may say that it certainly does not.
func TestB1_UnlistedErrorsAreUnknown(t *testing.T) {
	t.Parallel()
	for name, l := range liars() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, truth := lying(t, l, gormstore.Options{})
			l.lies.Store(math.MaxInt64)
			d := benchDraft(nil)
			stored, err := s.Insert(t.Context(), []model.Draft{d})
			if l.told.Load() == 0 {
				t.Fatal("the proxy did not lie")
			}
			if n := present(t, truth, d); n != 1 {
				t.Fatalf("%d rows, want 1: the proxy did not pass it on", n)
			}
			if errors.Is(err, model.ErrNotStored) {
				t.Errorf("certainly not stored, but the row exists: %v", err)
			}
			if err == nil && stored[0] != model.StoredNew {
				t.Errorf("got %v, want the row that the first INSERT stored", stored)
			}
		})
	}
}

// TestB2_ALandedInsertIsOurs: the INSERT took effect and its answer was lost. What the repeated one
// finds is this call's own row, which its caller sends at once, but only in the epoch that it gave.
func TestB2_ALandedInsertIsOurs(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]*liar{"mysql": {}, "postgres": {postgres: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, truth := lying(t, l, gormstore.Options{})
			l.cut.Store(true)
			for _, n := range []int{1, 3} {
				rows := batch(n)
				for i := range rows {
					rows[i].Epoch = model.NewEpoch()
				}
				told := l.told.Load()
				l.lies.Store(1)
				stored, err := s.Insert(t.Context(), rows)
				if err != nil || l.told.Load() == told {
					t.Fatalf("%d rows: %v, %d answers lost", n, err, l.told.Load()-told)
				}
				l.lies.Store(0)
				if i := slices.IndexFunc(stored, func(f model.Stored) bool { return f != model.StoredNew }); i >= 0 {
					t.Errorf("%d rows: the %d. is %v, want it new", n, i, stored[i])
				}
				if got := present(t, truth, rows...); got != n {
					t.Errorf("%d rows, want %d", got, n)
				}
				for i := range rows { // another call
					rows[i].Epoch = model.NewEpoch()
				}
				again, err := s.Insert(t.Context(), rows)
				if err != nil || slices.Contains(again, model.StoredNew) {
					t.Errorf("another call: %v, %v, want all stored before", again, err)
				}
			}
		})
	}
}

// TestB2_UnknownIsResolvedInTime: the answers to the INSERTs of 48 callers are lost. They have
// time, so nobody is told maybe, and each row exists once.
func TestB2_UnknownIsResolvedInTime(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]*liar{
		"mysql reset": {}, "mysql 2013": {number: 2013},
		"postgres reset": {postgres: true}, "postgres 08P01": {postgres: true, code: "08P01"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, truth := lying(t, l, gormstore.Options{InsertTimeout: time.Minute})
			l.cut.Store(l.number == 0 && l.code == "")
			l.lies.Store(2)
			const callers = 48
			rows, errs := batch(callers), make([]error, callers)
			var wg sync.WaitGroup
			for i := range rows {
				wg.Go(func() { _, errs[i] = s.Insert(t.Context(), rows[i:i+1]) })
			}
			wg.Wait()
			if l.told.Load() == 0 {
				t.Fatal("no answer was lost")
			}
			for _, err := range errs {
				if err != nil {
					t.Errorf("a caller with time left: %v", err)
				}
			}
			if n := present(t, truth, rows...); n != callers {
				t.Errorf("%d rows, want %d", n, callers)
			}
		})
	}
}
