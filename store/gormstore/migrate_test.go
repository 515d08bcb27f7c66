package gormstore_test

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
)

// eachServer runs a test on a fresh database of every server.
func eachServer(t *testing.T, test func(t *testing.T, dsn string)) {
	t.Helper()
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			test(t, server.dsn(t))
		})
	}
}

func unchecked(t *testing.T, dsn string, o gormstore.Options) *gormstore.Store {
	t.Helper()
	o.SkipSchemaCheck = true
	s, err := anystore.Open(t.Context(), dsn, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestOpenWithoutSchemaNamesTheCommand(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		_, err := anystore.Open(t.Context(), dsn, gormstore.Options{})
		if err == nil || !strings.Contains(err.Error(), "transmsg migrate up") {
			t.Errorf("got %v, want it to name `transmsg migrate up`", err)
		}
	})
}

func TestMigrateTwiceAndStatus(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := unchecked(t, dsn, gormstore.Options{Prefix: "app_"})
		pending, err := migrations.Status(t.Context(), s)
		if err != nil || len(pending) == 0 || slices.ContainsFunc(pending, applied) {
			t.Fatalf("before: %v, %v, want all pending", pending, err)
		}
		if err := s.CheckSchema(t.Context()); err == nil || !strings.Contains(err.Error(), "transmsg migrate up") {
			t.Errorf("version table without migrations: got %v", err)
		}
		done, err := migrations.Up(t.Context(), s)
		if err != nil || len(done) != len(pending) {
			t.Fatalf("migrate: %v, %v", done, err)
		}
		again, err := migrations.Up(t.Context(), s)
		if err != nil || len(again) != 0 {
			t.Errorf("second time: %v, %v, want nothing to do", again, err)
		}
		after, err := migrations.Status(t.Context(), s)
		if err != nil || !slices.Equal(after, done) {
			t.Errorf("after: %v, %v, want %v", after, err, done)
		}
		if err := s.CheckSchema(t.Context()); err != nil {
			t.Error(err)
		}
		d := benchDraft([]byte("x"))
		if _, err := s.Insert(t.Context(), []model.Draft{d}); err != nil {
			t.Error(err)
		}
		var n int
		row := s.Pool().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM app_trans_message")
		if err := row.Scan(&n); err != nil || n != 1 {
			t.Errorf("%d rows in the table with the prefix (%v)", n, err)
		}
	})
}

func applied(m migrations.Migration) bool { return m.Applied }

// TestMigrationSQLAppliedByHand runs the printed text and expects that nothing is left
// to do and that the store works on it.
func TestMigrationSQLAppliedByHand(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		text, err := migrations.SQL(anystore.Source(dsn).Dialect(), "")
		if err != nil {
			t.Fatal(err)
		}
		s := unchecked(t, dsn, gormstore.Options{})
		for stmt := range strings.SplitSeq(withoutComments(text), ";") {
			if strings.TrimSpace(stmt) == "" {
				continue
			}
			if _, err := s.Pool().ExecContext(t.Context(), stmt); err != nil {
				t.Fatalf("%v in:\n%s", err, stmt)
			}
		}
		if err := s.CheckSchema(t.Context()); err != nil {
			t.Error(err)
		}
		if done, err := migrations.Up(t.Context(), s); err != nil || len(done) != 0 {
			t.Errorf("migrate after the printed text: %v, %v, want nothing to do", done, err)
		}
	})
}

func withoutComments(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestSchemaVersionsAccepted(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{})
		add := func(version int) {
			_, err := s.Pool().ExecContext(t.Context(), fmt.Sprintf("INSERT INTO transmsg_schema_version "+
				"(version_id, is_applied) VALUES (%d, true)", version))
			if err != nil {
				t.Fatal(err)
			}
		}
		add(gormstore.SchemaVersion + 1)
		if err := s.CheckSchema(t.Context()); err != nil {
			t.Errorf("the next schema version is refused: %v", err)
		}
		add(gormstore.SchemaVersion + 2)
		if err := s.CheckSchema(t.Context()); err == nil || !strings.Contains(err.Error(), "upgrade") {
			t.Errorf("a far newer schema: got %v, want it refused", err)
		}
	})
}

// TestSchemaBeforeReplayedIsRefused has the schema of the build before, which this build
// cannot work on, and applies what is missing to rows that are there.
func TestSchemaBeforeReplayedIsRefused(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{})
		d := benchDraft([]byte("x"))
		if _, err := s.Insert(t.Context(), []model.Draft{d}); err != nil {
			t.Fatal(err)
		}
		for _, stmt := range append(withoutLetterColumns(s.Dialect()),
			"DROP TABLE trans_inbox_attempt",
			"DROP TABLE trans_inbox",
			"DROP TABLE trans_message_alert",
			"ALTER TABLE trans_message DROP COLUMN not_before",
			"ALTER TABLE trans_message_event DROP COLUMN epoch",
			"ALTER TABLE trans_message DROP COLUMN first_failed_at",
			"ALTER TABLE trans_message DROP COLUMN lone_claims",
			"ALTER TABLE trans_message DROP COLUMN lone_since",
			"ALTER TABLE trans_message DROP COLUMN closes",
			"ALTER TABLE trans_message DROP COLUMN closes_since",
			"ALTER TABLE trans_message DROP COLUMN replayed_at",
			"DELETE FROM transmsg_schema_version WHERE version_id >= 2",
		) {
			if _, err := s.Pool().ExecContext(t.Context(), stmt); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.CheckSchema(t.Context()); err == nil || !strings.Contains(err.Error(), "transmsg migrate up") {
			t.Errorf("schema version 1: got %v, want it to name `transmsg migrate up`", err)
		}
		if done, err := migrations.Up(t.Context(), s); err != nil || len(done) != gormstore.SchemaVersion-1 {
			t.Fatalf("migrate from version 1: %v, %v", done, err)
		}
		if err := s.CheckSchema(t.Context()); err != nil {
			t.Error(err)
		}
		if row, _, err := s.Show(t.Context(), d.ID); err != nil || row.ReplayedAt != 0 {
			t.Errorf("row stored before: %+v, %v", row, err)
		}
	})
}

// withoutLetterColumns undoes migration 6.
func withoutLetterColumns(dialect string) (stmts []string) {
	on := map[string]string{"mysql": " ON trans_dead_letter"}[dialect]
	for _, index := range []string{"status", "alert", "parent"} {
		stmts = append(stmts, "DROP INDEX trans_dead_letter_"+index+on)
	}
	for _, column := range []string{
		"status", "queue_name", "exchange_name", "key_name", "cause", "error", "attempts", "service", "message_key",
		"version", "epoch", "parent", "replay_id", "claimed_by", "alert_at", "unreplayable",
		"original_properties", "original_payload", "erased_at",
	} {
		stmts = append(stmts, "ALTER TABLE trans_dead_letter DROP COLUMN "+column)
	}
	return stmts
}

// TestMigrationsOpenMakesTheTables is the door for files and memory that are the program's
// own; without it a fresh one is refused like any other database.
func TestMigrationsOpenMakesTheTables(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"sqlite::memory:", ":memory:", dbtest.SQLite(t), "sqlite:" + t.TempDir() + "/with space%20 ü.db",
	} {
		if s, err := anystore.Open(t.Context(), dsn, gormstore.Options{}); err == nil {
			t.Errorf("%s: opened without tables", dsn)
			_ = s.Close()
		}
		s, err := migrations.Open(t.Context(), anystore.Source(dsn), gormstore.Options{})
		if err != nil {
			t.Errorf("%s: %v", dsn, err)
			continue
		}
		d := benchDraft([]byte("x"))
		if got, err := s.Insert(t.Context(), []model.Draft{d}); err != nil || got[0] != model.StoredNew {
			t.Errorf("%s: %v, %v", dsn, got, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestNewestMigrationIsTheSchemaVersion: a migration that is added raises the constant too.
func TestNewestMigrationIsTheSchemaVersion(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{"mysql", "postgres", "sqlite"} {
		files, err := gormstore.MigrationFiles(dialect, "")
		if err != nil {
			t.Fatal(err)
		}
		names, err := fs.Glob(files, fmt.Sprintf("%05d_*.sql", gormstore.SchemaVersion))
		all, errAll := fs.Glob(files, "*.sql")
		if err != nil || errAll != nil || len(names) != 1 || len(all) != gormstore.SchemaVersion {
			t.Errorf("%s: %v of %v (%v, %v), want %d files, the last of that number",
				dialect, names, all, err, errAll, gormstore.SchemaVersion)
		}
	}
}
