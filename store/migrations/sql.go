package migrations

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/transmsg/transmsg/store/gormstore"
)

// SQL returns the text of all migrations for a dialect ("mysql", "postgres" or "sqlite") and
// a prefix of the tables, with the rows of the version table that [Up] would write: for
// those who apply schema changes by themselves.
func SQL(dialect, prefix string) (string, error) {
	text, err := text(dialect, prefix)
	if err != nil {
		return "", fmt.Errorf("migrations: sql: %w", err)
	}
	return text, nil
}

func text(dialect, prefix string) (string, error) {
	if dialect != dialectMySQL && dialect != dialectPostgres && dialect != dialectSQLite {
		return "", fmt.Errorf("dialect %q must be mysql, postgres or sqlite", dialect)
	}
	if err := (gormstore.Options{Prefix: prefix}).Validate(); err != nil {
		return "", err
	}
	files, err := gormstore.MigrationFiles(dialect, prefix)
	if err != nil {
		return "", err
	}
	table := gormstore.VersionTable(prefix)
	var b strings.Builder
	fmt.Fprintf(&b, "%s;\nINSERT INTO %s (version_id, is_applied) VALUES (0, %s);\n",
		versionTable(dialect, table), table, truth(dialect))
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return "", err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return "", err
		}
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		fmt.Fprintf(&b, "\n-- %s\n%s\nINSERT INTO %s (version_id, is_applied) VALUES (%d, %s);\n", name,
			strings.TrimSpace(strings.Replace(up, "-- +goose Up", "", 1)), table, version, truth(dialect))
	}
	return b.String(), nil
}
