package gormstore_test

import (
	"strings"
	"testing"

	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/store/gormstore"
)

// TestT2_AConvertedTableIsNamedWithItsMend changes collations as an administrator would. The
// error's own statement must mend it.
func TestT2_AConvertedTableIsNamedWithItsMend(t *testing.T) {
	t.Parallel()
	for server, c := range map[string]struct{ breaks, column string }{
		"mysql/table":     {" CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", "id"},
		"mysql/utf8mb3":   {" CONVERT TO CHARACTER SET utf8mb3", "id"},
		"mysql/column":    {" MODIFY routing_key VARCHAR(255) NOT NULL COLLATE utf8mb4_unicode_ci", "routing_key"},
		"mysql/events":    {"_event CONVERT TO CHARACTER SET latin1", "row_id"},
		"postgres/column": {` ALTER COLUMN service TYPE VARCHAR(64) COLLATE "default"`, "service"},
	} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			dsn := dbtest.Postgres(t)
			if strings.HasPrefix(server, "mysql") {
				dsn = dbtest.MySQL(t)
			}
			s := migrated(t, dsn, gormstore.Options{})
			if err := s.CheckSchema(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Pool().ExecContext(t.Context(), "ALTER TABLE trans_message"+c.breaks); err != nil {
				t.Fatal(err)
			}
			_, err := anystore.Open(t.Context(), dsn, gormstore.Options{})
			if err == nil || !strings.Contains(err.Error(), "."+c.column+" has the collation") {
				t.Fatalf("got %v, want the column %s", err, c.column)
			}
			_, mend, _ := strings.Cut(err.Error(), "run: ")
			if _, err := s.Pool().ExecContext(t.Context(), mend); err != nil {
				t.Fatalf("%s: %v", mend, err)
			}
			if err := s.CheckSchema(t.Context()); err != nil {
				t.Errorf("after the statement of the error: %v", err)
			}
		})
	}
}

// TestT2_EveryOwnConnectionIsStrict: a server or a DSN that is not strict would cut texts.
func TestT2_EveryOwnConnectionIsStrict(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES"} {
		s := migrated(t, dbtest.MySQL(t)+"?sql_mode=%27"+mode+"%27", gormstore.Options{})
		for range 3 {
			conn, err := s.Pool().Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			var have string
			if err := conn.QueryRowContext(t.Context(), "SELECT @@SESSION.sql_mode").Scan(&have); err != nil ||
				!strings.Contains(have, "STRICT_TRANS_TABLES") {
				t.Errorf("mode %q: have %q, %v", mode, have, err)
			}
		}
		if got, err := s.Insert(t.Context(), batch(3)); err != nil || len(got) != 3 {
			t.Errorf("mode %q: %v, %v", mode, got, err)
		}
	}
}

// TestT2_StatementBinlogIsRefused: with it the server takes INSERTs of callers and refuses
// our DELETE of what was confirmed.
func TestT2_StatementBinlogIsRefused(t *testing.T) {
	t.Parallel()
	flags := []string{"--log-bin=bin", "--binlog-format=STATEMENT"}
	server := dbtest.StartMariaDB(t, dbtest.MariaDBOptions{Flags: flags})
	name, err := server.NewSchema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := gormstore.Options{SkipSchemaCheck: true}
	_, err = anystore.Open(t.Context(), server.DSN(name), o)
	if err == nil || !strings.Contains(err.Error(), "SET GLOBAL binlog_format = 'ROW'") {
		t.Fatalf("got %v, want a refusal with the statement", err)
	}
	if err := server.Exec(t.Context(), "SET GLOBAL binlog_format = 'ROW'"); err != nil {
		t.Fatal(err)
	}
	migrated(t, server.DSN(name), gormstore.Options{})
}
