package gormstore_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// fill stores n rows that are not due and a few that are.
func fill(t *testing.T, s *gormstore.Store, n int) {
	t.Helper()
	rows := batch(n)
	for i := range rows {
		rows[i].Delay = hour
		if i%100 == 0 {
			rows[i].Delay = 0
		}
	}
	if _, err := s.Insert(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	analyze := map[string]string{
		"mysql": "ANALYZE TABLE trans_message", "postgres": "ANALYZE trans_message", "sqlite": "ANALYZE",
	}
	if _, err := s.Pool().ExecContext(t.Context(), analyze[s.Dialect()]); err != nil {
		t.Fatal(err)
	}
}

// TestC36_ClaimWalksTheIndexInOrder: no claim sorts, and none reads rows outside of the
// index range of what is due, with a cursor or without. Content is read with the lock only
// after a claim of small rows: else it would be read also for rows beyond the claim's bytes.
func TestC36_ClaimWalksTheIndexInOrder(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{})
		fill(t, s, 400)
		explainClaims(t, s, false)
		claimFirst(t, s)
		explainClaims(t, s, true) // the last claim's rows were small
		large := benchDraft(make([]byte, 9000))
		large.Delay = 0
		if _, err := s.Insert(t.Context(), []model.Draft{large}); err != nil {
			t.Fatal(err)
		}
		claimFirst(t, s)
		explainClaims(t, s, false)
	})
}

func claimFirst(t *testing.T, s *gormstore.Store) {
	t.Helper()
	got, err := s.Claim(t.Context(), model.Claim{
		Service: "orders", Instance: "h", Lease: hour, MaxRows: 400, MaxBytes: 1 << 20,
	})
	if err != nil || len(got.Rows) == 0 {
		t.Fatalf("claimed %d rows, %v", len(got.Rows), err)
	}
}

// explainClaims looks at the locking query, which reads content or not.
func explainClaims(t *testing.T, s *gormstore.Store, content bool) {
	t.Helper()
	for name, after := range map[string]model.Cursor{
		"from the start": {}, "after a cursor": {DueAt: 1, ID: "0"},
	} {
		query, args := s.DueQuery(model.Claim{Service: "orders", MaxRows: 50, After: after})
		if strings.Contains(query, "payload") != content || strings.Contains(query, "properties") != content {
			t.Errorf("%s: want content %t in the locking query:\n%s", name, content, query)
		}
		plan := explain(t, s, query, args)
		t.Logf("%s: %s", name, plan)
		if !strings.Contains(plan, "trans_message_due") {
			t.Errorf("%s: the index of due rows is not used:\n%s", name, plan)
		}
		for _, bad := range []string{
			"filesort", "temporary", "Sort", "TEMP B-TREE", "Seq Scan", "SCAN trans_message",
		} {
			if strings.Contains(plan, bad) {
				t.Errorf("%s: %s in the plan:\n%s", name, bad, plan)
			}
		}
	}
}

func explain(t *testing.T, s *gormstore.Store, query string, args []any) string {
	t.Helper()
	verb := map[string]string{
		"mysql": "EXPLAIN ", "postgres": "EXPLAIN (ANALYZE, COSTS OFF) ", "sqlite": "EXPLAIN QUERY PLAN ",
	}
	tx := begin(t, s)
	if s.Dialect() == "postgres" {
		if _, err := tx.ExecContext(t.Context(), gormstore.InOrder); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := tx.QueryContext(t.Context(), verb[s.Dialect()]+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // an EXPLAIN changes nothing
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			if raw, ok := (*v.(*any)).([]byte); ok {
				fmt.Fprintf(&b, "%s | ", raw)
			} else {
				fmt.Fprintf(&b, "%v | ", *v.(*any))
			}
		}
		b.WriteByte('\n')
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestClaimReadsOnlyWhatIsDue counts the rows that MySQL touches.
func TestClaimReadsOnlyWhatIsDue(t *testing.T) {
	t.Parallel()
	s := migrated(t, servers[0].dsn(t), gormstore.Options{MaxOpenConns: 1})
	fill(t, s, 2000) // 20 are due
	before := handlerReads(t, s)
	got, err := s.Claim(t.Context(), model.Claim{Service: "orders", Lease: hour, MaxRows: 50, MaxBytes: 1 << 20})
	if err != nil || len(got.Rows) != 20 {
		t.Fatalf("claimed %d rows, %v, want 20", len(got.Rows), err)
	}
	// Each row: once by the index, once to update, once to read.
	if reads := handlerReads(t, s) - before; reads > 200 {
		t.Errorf("a claim of 20 rows among 2000 read %d", reads)
	}
}

// TestSettleAndDeleteReadOnlyTheirRows counts the rows that MySQL touches.
func TestSettleAndDeleteReadOnlyTheirRows(t *testing.T) {
	t.Parallel()
	s := migrated(t, servers[0].dsn(t), gormstore.Options{MaxOpenConns: 1})
	fill(t, s, 2000)
	rows := batch(10)
	if _, err := s.Insert(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	list := make([]model.Settlement, len(rows))
	keys := make([]model.RowKey, len(rows))
	for i := range rows {
		list[i] = model.Settlement{ID: rows[i].ID, Status: model.Ready, Outcome: model.Outcome{Kind: model.Nacked}}
		keys[i] = model.RowKey{ID: rows[i].ID}
	}
	before := handlerReads(t, s)
	if _, err := s.Settle(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	if reads := handlerReads(t, s) - before; reads > 200 {
		t.Errorf("a settlement of 10 rows among 2000 read %d", reads)
	}
	before = handlerReads(t, s)
	if _, err := s.Delete(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	if reads := handlerReads(t, s) - before; reads > 200 {
		t.Errorf("a delete of 10 rows among 2000 read %d", reads)
	}
}

// handlerReads is the number of rows that this session has read.
func handlerReads(t *testing.T, s *gormstore.Store) int {
	t.Helper()
	var n int
	err := s.Pool().QueryRowContext(t.Context(), "SELECT SUM(variable_value) FROM "+
		sessionSchema(t, s.Pool())+".session_status "+
		"WHERE variable_name IN ('Handler_read_first','Handler_read_key','Handler_read_last','Handler_read_next',"+
		"'Handler_read_prev','Handler_read_rnd','Handler_read_rnd_next')").Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// sessionSchema is where MariaDB, and where MySQL, has the tables of a session's state.
func sessionSchema(t *testing.T, db *sql.DB) string {
	t.Helper()
	if mariaDB(t, db) {
		return "information_schema"
	}
	return "performance_schema"
}

// mariaDB tells MariaDB from MySQL.
func mariaDB(t *testing.T, db *sql.DB) bool {
	t.Helper()
	var version string
	if err := db.QueryRowContext(t.Context(), "SELECT VERSION()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	return strings.Contains(version, "MariaDB")
}

func TestOwnPoolIsReadCommitted(t *testing.T) {
	t.Parallel()
	for i, query := range []string{"SELECT @@tx_isolation", "SHOW transaction_isolation"} {
		s := migrated(t, servers[i].dsn(t), gormstore.Options{})
		var level string
		if i == 0 && !mariaDB(t, s.Pool()) {
			query = "SELECT @@transaction_isolation"
		}
		if err := s.Pool().QueryRowContext(t.Context(), query).Scan(&level); err != nil {
			t.Fatal(err)
		}
		if got := strings.ToLower(strings.ReplaceAll(level, "-", " ")); got != "read committed" {
			t.Errorf("%s: level %q, want read committed", servers[i].name, got)
		}
	}
}

// TestD4_StatsReadTheIndexAlone: counts and ages come from the index of due rows, and of the
// rows only the oldest of each group is read.
func TestD4_StatsReadTheIndexAlone(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{MaxOpenConns: 1})
		fill(t, s, 2000)
		for _, service := range []string{"", "orders"} {
			query, args := s.StatsQuery(service)
			plan := explain(t, s, query, args)
			t.Logf("%q:\n%s", service, plan)
			if !strings.Contains(plan, "trans_message_due") || strings.Contains(plan, "Seq Scan on trans_message") {
				t.Errorf("%q: the index of due rows is not used:\n%s", service, plan)
			}
		}
		if s.Dialect() != "mysql" {
			return
		}
		before := handlerReads(t, s)
		got, err := s.Stats(t.Context(), "orders")
		if err != nil || got[0].Ready != 2000 || got[0].OldestReady <= 0 {
			t.Fatalf("stats %+v, %v", got, err)
		}
		if reads := handlerReads(t, s) - before; reads > 2*2000+100 {
			t.Errorf("stats of 2000 rows read %d", reads)
		}
		before = handlerReads(t, s)
		if age, err := s.OldestDue(t.Context(), "orders"); err != nil || age < 0 {
			t.Fatalf("oldest due %s, %v", age, err)
		}
		if reads := handlerReads(t, s) - before; reads > 20 { // looking at the counter reads some
			t.Errorf("the oldest due row of 2000 took %d reads", reads)
		}
	})
}
