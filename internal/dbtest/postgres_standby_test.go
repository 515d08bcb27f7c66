package dbtest_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/dbtest"
)

// TestAStandbyIsWaitedForAndTakesOver: a commit waits for the standby, survives the primary's end when
// it returned, and is gone with the old primary's data when the standby never had it.
func TestAStandbyIsWaitedForAndTakesOver(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	one, two := dbtest.StartPostgres(t), dbtest.StartPostgres(t)
	must(two.Attach(ctx, one))
	must(one.Exec(ctx, "CREATE TABLE t (n int)", "INSERT INTO t VALUES (1)"))
	must(two.Kill())
	db, err := sql.Open("pgx", one.DSN("postgres"))
	must(err)
	defer db.Close()
	done := make(chan error, 1)
	go func() {
		_, err := db.Exec("INSERT INTO t VALUES (2)")
		done <- err
	}()
	for waiting, deadline := 0, time.Now().Add(time.Minute); waiting == 0; time.Sleep(10 * time.Millisecond) { // polls
		must(db.QueryRowContext(ctx, "SELECT count(*) FROM pg_stat_activity "+
			"WHERE wait_event = 'SyncRep'").Scan(&waiting))
		if time.Now().After(deadline) {
			t.Fatal("the commit does not wait for the standby")
		}
	}
	must(one.Kill())
	if err := <-done; err == nil {
		t.Error("a commit that no standby had returned nil")
	}
	must(two.Start(ctx))
	must(two.Promote(ctx))
	must(two.Exec(ctx, "INSERT INTO t VALUES (3)"))
	must(one.Attach(ctx, two))
	for _, s := range []*dbtest.PostgresServer{one, two} {
		if got := postgresNumbers(t, s); got != "{1,3}" {
			t.Errorf("rows of %s: %s, want 1 and 3 on both", s.Addr(), got)
		}
	}
}

func postgresNumbers(t *testing.T, s *dbtest.PostgresServer) (list string) {
	t.Helper()
	db, err := sql.Open("pgx", s.DSN("postgres"))
	if err == nil {
		defer db.Close()
		err = db.QueryRowContext(t.Context(), "SELECT array_agg(n ORDER BY n)::text FROM t").Scan(&list)
	}
	if err != nil {
		return fmt.Sprint(err)
	}
	return list
}
