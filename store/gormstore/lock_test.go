package gormstore_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
)

// eachLocking runs a test on the servers that lock rows, on the own pool and a caller's.
func eachLocking(t *testing.T, test func(*testing.T, *gormstore.Store)) {
	t.Helper()
	callers := map[string]func(string) gorm.Dialector{
		"mysql":    func(dsn string) gorm.Dialector { return gormmysql.Open(dsn + "?parseTime=true") },
		"postgres": gormpostgres.Open,
	}
	for _, server := range servers {
		pool := callers[server.name]
		if pool == nil {
			continue
		}
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			test(t, migrated(t, server.dsn(t), gormstore.Options{}))
		})
		t.Run(server.name+" callers pool", func(t *testing.T) {
			t.Parallel()
			test(t, onCallersPool(t, callersPool(t, pool(server.dsn(t)))))
		})
	}
}

// busyIDs are the rows that an error names as locked.
func busyIDs(t *testing.T, err error) []string {
	t.Helper()
	var busy *model.BusyError
	if !errors.As(err, &busy) {
		t.Fatalf("got %v, want a BusyError", err)
	}
	return busy.IDs
}

func inserted(t *testing.T, s *gormstore.Store, n int) []model.Draft {
	t.Helper()
	rows := batch(n)
	if _, err := s.Insert(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestDeletePassesOverLockedRows: a row in somebody's shell delays itself alone.
func TestDeletePassesOverLockedRows(t *testing.T) {
	t.Parallel()
	eachLocking(t, func(t *testing.T, s *gormstore.Store) {
		rows := inserted(t, s, 101)
		keys := make([]model.RowKey, len(rows))
		for i := range rows {
			keys[i] = model.RowKey{ID: rows[i].ID}
		}
		keys[100].Epoch = 7 // replayed since: neither deleted nor locked
		tx := begin(t, s)
		lockRow(t, tx, rows[50].ID)
		n, err := s.Delete(t.Context(), keys)
		if got := busyIDs(t, err); n != 99 || !slices.Equal(got, []string{rows[50].ID}) {
			t.Errorf("%d deleted, %v are busy, want 99 and the locked one", n, got)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Delete(t.Context(), keys); n != 1 || err != nil {
			t.Errorf("with the lock gone: %d deleted, %v, want 1", n, err)
		}
		if n := present(t, s, rows...); n != 1 {
			t.Errorf("%d rows stay, want the one of another epoch", n)
		}
	})
}

// TestDiscardPassesOverOthersLocks: an act waits for no row but its own.
func TestDiscardPassesOverOthersLocks(t *testing.T) {
	t.Parallel()
	eachLocking(t, func(t *testing.T, s *gormstore.Store) {
		rows := inserted(t, s, 101)
		ids := make([]string, 100)
		for i := range ids {
			ids[i] = rows[i].ID
		}
		lockRow(t, begin(t, s), rows[100].ID)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n, err := s.Discard(ctx, model.OperatorAct{
			Selection: model.Selection{IDs: ids, Filter: model.Filter{Status: model.Ready}}, Actor: "tester",
		})
		if err != nil || n != 100 {
			t.Errorf("%d discarded, %v, want 100", n, err)
		}
	})
}

// TestSettlePassesOverLockedRows: the same; what is gone is told from what is locked.
func TestSettlePassesOverLockedRows(t *testing.T) {
	t.Parallel()
	eachLocking(t, func(t *testing.T, s *gormstore.Store) {
		rows := inserted(t, s, 20)
		list := make([]model.Settlement, len(rows), len(rows)+1)
		for i := range rows {
			list[i] = model.Settlement{
				ID: rows[i].ID, Status: model.Ready, FailuresDelta: 1, Outcome: model.Outcome{Kind: model.Unknown},
			}
		}
		list = append(list, model.Settlement{ID: model.NewID(), Status: model.Ready})
		tx := begin(t, s)
		lockRow(t, tx, rows[7].ID)
		want := slices.Repeat([]model.Settled{model.SettledDone}, len(list))
		want[7], want[20] = 0, model.SettledGone
		got, err := s.Settle(t.Context(), list)
		if busy := busyIDs(t, err); !slices.Equal(got, want) || !slices.Equal(busy, []string{rows[7].ID}) {
			t.Errorf("got %v and busy %v, want %v and the locked one", got, busy, want)
		}
		done := make(chan error, 1)
		go func() { done <- tx.Rollback() }()
		got, err = s.Settle(t.Context(), list[7:8]) // comes back to it while the lock goes
		if err := errors.Join(err, <-done); err != nil || got[0] != model.SettledDone {
			t.Errorf("with the lock gone: %v, %v, want it done", got, err)
		}
	})
}

// TestRenewPassesOverLockedRows: a late sender does not wait for them.
func TestRenewPassesOverLockedRows(t *testing.T) {
	t.Parallel()
	eachLocking(t, func(t *testing.T, s *gormstore.Store) {
		rows := inserted(t, s, 2)
		lockRow(t, begin(t, s), rows[0].ID)
		got, err := s.Renew(t.Context(), "me", []model.RowKey{{ID: rows[0].ID}, {ID: rows[1].ID}}, hour)
		if err != nil || !slices.Equal(got, []string{rows[1].ID}) {
			t.Errorf("renewed %v, %v, want the free one", got, err)
		}
	})
}

// TestRestorePassesOverLockedIDs: the id of one is in somebody's open transaction.
func TestRestorePassesOverLockedIDs(t *testing.T) {
	t.Parallel()
	for _, server := range servers[:2] {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			s := migrated(t, server.dsn(t), gormstore.Options{})
			drafts := batch(120)
			rows, list := make([]model.TransMessage, 120), make([]model.Settlement, 120)
			for i := range drafts {
				rows[i] = drafts[i].TransMessage
				list[i] = model.Settlement{
					ID: rows[i].ID, Status: model.Ready, Outcome: model.Outcome{Kind: model.Returned},
				}
			}
			tx := begin(t, s)
			if err := insertTx(t, s, tx, drafts[60:61]...); err != nil {
				t.Fatal(err)
			}
			got, err := s.Restore(t.Context(), rows, list)
			if busy := busyIDs(t, err); !slices.Equal(busy, []string{rows[60].ID}) || got[60] || !got[59] || !got[119] {
				t.Errorf("busy %v, restored %v, want all but the locked one", busy, got)
			}
			if n := present(t, s, slices.Concat(drafts[:60], drafts[61:])...); n != 119 {
				t.Errorf("%d rows are there, want 119", n)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if got, err := s.Restore(t.Context(), rows, list); err != nil || slices.Contains(got, true) {
				t.Errorf("again: %v, %v, want nothing restored", got, err)
			}
		})
	}
}

// TestLockedIDStopsItsCallerAlone: an id that a transaction open elsewhere has inserted
// fails, or delays, the one caller who has the same id.
func TestLockedIDStopsItsCallerAlone(t *testing.T) {
	t.Parallel()
	for _, server := range servers[:2] {
		for _, commits := range []bool{true, false} {
			t.Run(server.name, func(t *testing.T) {
				t.Parallel()
				dsn := server.dsn(t)
				migrated(t, dsn, gormstore.Options{})
				timeout := time.Minute
				if !commits {
					timeout = 6 * time.Second
				}
				lockedID(t, migrated(t, dsn, gormstore.Options{InsertTimeout: timeout}), commits)
			})
		}
	}
}

func lockedID(t *testing.T, s *gormstore.Store, commits bool) {
	t.Helper()
	locked := batch(1)
	tx := begin(t, s)
	if err := insertTx(t, s, tx, locked...); err != nil {
		t.Fatal(err)
	}
	var neighbours sync.WaitGroup
	var late <-chan error
	for i := range 60 {
		if i == 5 {
			late = insertAsync(t.Context(), s, locked[0])
			continue
		}
		neighbours.Go(func() {
			got, err := s.Insert(t.Context(), batch(1+i%3))
			if err != nil || got[0] != model.StoredNew {
				t.Errorf("neighbour: %v, %v", got, err)
			}
		})
	}
	neighbours.Wait() // while the lock is held
	inserted(t, s, 1)
	if !commits {
		if err := <-late; err == nil {
			t.Error("the id was stored although another transaction holds it")
		}
		return
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-late; err != nil {
		t.Errorf("the caller with the locked id: %v, want it found", err)
	}
}

// TestLockedTableDelaysAndFailsNobody: PostgreSQL's lock timeout ends the wait for a table
// too, again and again. The table is held until every writer has met that.
func TestLockedTableDelaysAndFailsNobody(t *testing.T) {
	t.Parallel()
	s := migrated(t, dbtest.Postgres(t), gormstore.Options{})
	rows := inserted(t, s, 40)
	tx := begin(t, s)
	if _, err := tx.ExecContext(t.Context(), "LOCK TABLE trans_message IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	writers := startWriters(ctx, t, s, rows)
	manyWaits(t, tx, 16)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	writers.Wait()
	list, err := s.List(t.Context(), model.Filter{Limit: 1000})
	if err != nil || len(list) != 40-1+30*2+1 {
		t.Errorf("%d rows, %v, want 100", len(list), err)
	}
}

// manyWaits returns when n statements of this database have begun to wait for a lock.
func manyWaits(t *testing.T, tx *sql.Tx, n int) {
	t.Helper()
	waits := map[string]bool{}
	eventually(t, "statements have waited many times", func() bool {
		var starts string
		if _, err := tx.ExecContext(t.Context(), "SELECT pg_stat_clear_snapshot()"); err != nil {
			t.Fatal(err)
		}
		err := tx.QueryRowContext(t.Context(), "SELECT COALESCE(string_agg(pid || ' ' || query_start, ','), '') "+
			"FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&starts)
		if err != nil {
			t.Fatal(err)
		}
		for start := range strings.SplitSeq(starts, ",") {
			if start != "" {
				waits[start] = true
			}
		}
		return len(waits) >= n
	})
}

// startWriters has every kind of writer at work on a table.
func startWriters(ctx context.Context, t *testing.T, s *gormstore.Store, rows []model.Draft) *sync.WaitGroup {
	t.Helper()
	writers := new(sync.WaitGroup)
	for range 30 {
		writers.Go(func() {
			if _, err := s.Insert(ctx, batch(2)); err != nil {
				t.Errorf("insert: %v", err)
			}
		})
	}
	writers.Go(func() {
		got, err := s.Settle(ctx, []model.Settlement{{ID: rows[0].ID, Status: model.Ready}})
		if err != nil || got[0] != model.SettledDone {
			t.Errorf("settle: %v, %v", got, err)
		}
	})
	writers.Go(func() {
		if n, err := s.Delete(ctx, []model.RowKey{{ID: rows[1].ID}}); err != nil || n != 1 {
			t.Errorf("delete: %d, %v", n, err)
		}
	})
	writers.Go(func() {
		r := batch(1)[0].TransMessage
		got, err := s.Restore(ctx, []model.TransMessage{r}, []model.Settlement{{ID: r.ID, Status: model.Ready}})
		if err != nil || !got[0] {
			t.Errorf("restore: %v, %v", got, err)
		}
	})
	return writers
}

// TestMigrationComesBackToALockedTable: it does not wait in the queue for the table, where
// it would hold up everybody, and does not give up.
func TestMigrationComesBackToALockedTable(t *testing.T) {
	t.Parallel()
	s := migrated(t, dbtest.Postgres(t), gormstore.Options{})
	tx := begin(t, s)
	for _, stmt := range []string{
		"ALTER TABLE trans_message DROP COLUMN not_before",
		"DELETE FROM transmsg_schema_version WHERE version_id >= 4",
	} {
		if _, err := s.Pool().ExecContext(t.Context(), stmt); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tx.ExecContext(t.Context(), "LOCK TABLE trans_message IN ACCESS SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	var applied []migrations.Migration
	go func() {
		var err error
		applied, err = migrations.Up(ctx, s)
		done <- err
	}()
	manyWaits(t, tx, 2)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || len(applied) != gormstore.SchemaVersion-3 || applied[0].Version != 4 {
		t.Errorf("got %v, %v, want migration 4 and those after it applied", applied, err)
	}
}

// TestAutocommitOff: where statements are not committed by themselves, nothing that was
// stored would stay. The own pool sets it right, a caller's is refused.
func TestAutocommitOff(t *testing.T) {
	t.Parallel()
	dsn := dbtest.MySQL(t) + "?autocommit=0"
	s := migrated(t, dsn, gormstore.Options{})
	rows := inserted(t, s, 1)
	other := migrated(t, dsn, gormstore.Options{})
	if n := present(t, other, rows...); n != 1 {
		t.Error("the row is not committed")
	}
	_, err := onPool(t.Context(), callersPool(t, gormmysql.Open(dsn)), gormstore.Options{})
	if err == nil || !strings.Contains(err.Error(), "autocommit") {
		t.Errorf("a caller's pool with autocommit=0: got %v, want it refused", err)
	}
}
