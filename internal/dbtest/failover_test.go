package dbtest_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/dbtest"
)

// TestTheOldPrimaryGivesUpWhatWasNeverAcknowledged: a commit waits for the replica, survives
// the primary's end when it returned, and is undone on the old primary when no replica had it.
func TestTheOldPrimaryGivesUpWhatWasNeverAcknowledged(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	one := dbtest.StartMariaDB(t, dbtest.MariaDBOptions{ServerID: 1, SemiSync: true})
	if one.Oracle() {
		t.Skip("semi-synchronous fail-over is written for MariaDB: MySQL has other words for it")
	}
	two := dbtest.StartMariaDB(t, dbtest.MariaDBOptions{ServerID: 2, SemiSync: true})
	must(errors.Join(one.Exec(ctx, "SET GLOBAL read_only = OFF"), two.Attach(ctx, one)))
	must(one.Exec(ctx, "CREATE DATABASE shop", "CREATE TABLE shop.t (n INT PRIMARY KEY) ENGINE=InnoDB",
		"INSERT INTO shop.t VALUES (1)"))

	must(two.Exec(ctx, "STOP SLAVE IO_THREAD"))
	db, err := sql.Open("mysql", one.AdminDSN("shop"))
	must(err)
	defer db.Close()
	done := make(chan error, 1)
	go func() {
		_, err := db.Exec("INSERT INTO t VALUES (2)")
		done <- err
	}()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // polls
		if n, err := one.Status(ctx, "Rpl_semi_sync_master_wait_sessions"); err == nil && n == "1" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the commit does not wait for the replica")
		}
	}
	must(one.Kill())
	if err := <-done; err == nil {
		t.Error("a commit that no replica had returned nil")
	}
	must(two.Promote(ctx))
	must(two.Exec(ctx, "INSERT INTO shop.t VALUES (3)"))
	must(one.Attach(ctx, two))
	for _, s := range []*dbtest.MariaDBServer{one, two} {
		if got := numbers(t, s); got != "[1 3]" {
			t.Errorf("rows of %s: %s, want 1 and 3 on both", s.Addr(), got)
		}
	}
}

func numbers(t *testing.T, s *dbtest.MariaDBServer) string {
	t.Helper()
	db, err := sql.Open("mysql", s.AdminDSN("shop"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT n FROM t ORDER BY n")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []int
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(all)
}
