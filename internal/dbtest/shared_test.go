package dbtest_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/transmsg/transmsg/internal/dbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func exec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func TestSharedDatabasesAreFreshAndDropped(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, driver string
		fresh        func(dbtest.TB) string
	}{
		{"mysql", "mysql", dbtest.MySQL},
		{"postgres", "pgx", dbtest.Postgres},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var first string
			var forget func()
			t.Run("inner", func(t *testing.T) {
				first = tc.fresh(t)
				second := tc.fresh(t)
				exec(t, open(t, tc.driver, first), "CREATE TABLE t (id INT)")
				exec(t, open(t, tc.driver, second), "CREATE TABLE t (id INT)")
				// A connection that a test forgot holds a lock over the drop.
				db, err := sql.Open(tc.driver, first)
				if err != nil {
					t.Fatal(err)
				}
				tx, err := db.Begin()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := tx.Exec("INSERT INTO t VALUES (1)"); err != nil {
					t.Fatal(err)
				}
				forget = func() { _ = tx.Rollback(); _ = db.Close() }
			})
			forget()
			if err := open(t, tc.driver, first).PingContext(t.Context()); err == nil {
				t.Error("the database outlived its test")
			}
		})
	}
}

func TestSharedErrorsNameTheNextStepAndNoPassword(t *testing.T) {
	t.Setenv(dbtest.EnvMySQL, "app:s3cret@tcp(127.0.0.2:1)/")
	t.Setenv(dbtest.EnvPostgres, "postgres://app:s3cret@127.0.0.2:1/postgres")
	_, _, myErr := dbtest.NewMySQL(t.Context())
	_, _, pgErr := dbtest.NewPostgres(t.Context())
	for name, err := range map[string]error{"mysql": myErr, "postgres": pgErr} {
		if err == nil {
			t.Errorf("%s: no error without a server", name)
			continue
		}
		for _, want := range []string{"scripts/services.sh", "127.0.0.2:1"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s in it", name, err, want)
			}
		}
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error shows the password: %v", name, err)
		}
	}
}

func TestSQLiteIsAFreshFile(t *testing.T) {
	t.Parallel()
	path := dbtest.SQLite(t)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("stat = %v, want not there yet", err)
	}
	path, drop, err := dbtest.NewSQLite(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := drop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !os.IsNotExist(err) {
		t.Errorf("stat = %v, want the folder removed", err)
	}
}
