package gormstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// SchemaVersion is the newest migration of this build. It works on this schema and, as
// migrations only add, on the next.
const SchemaVersion = 6

//go:embed migrations
var migrationFiles embed.FS

// VersionTable is the name of the table of applied migrations.
func VersionTable(prefix string) string { return prefix + "transmsg_schema_version" }

// CheckSchema accepts the schema version of this build and the next, with the collations
// that the migrations gave to the columns, and otherwise says what to run.
func (s *Store) CheckSchema(ctx context.Context) error {
	var have int64
	err := s.db.QueryRowContext(ctx, "SELECT COALESCE(MAX(version_id), 0) FROM "+s.sql.version+" WHERE is_applied").
		Scan(&have)
	switch {
	case err != nil && !s.d.missingTable(err):
		return s.wrap("check schema", err)
	case err != nil:
		err = fmt.Errorf("table %s does not exist: run `transmsg migrate up`", s.sql.version)
	case have < SchemaVersion:
		err = fmt.Errorf("schema version %d is older than %d: run `transmsg migrate up`", have, SchemaVersion)
	case have > SchemaVersion+1:
		err = fmt.Errorf("schema version %d is newer than %d, the newest this build works on: upgrade transmsg",
			have, SchemaVersion+1)
	default:
		err = s.checkColumns(ctx)
	}
	return s.wrap("check schema", err)
}

// ChangeSchema calls change with the store's pool until it succeeds: again where rivals undid
// it or a lock was not free in time, up to the deadline of ctx, or ten times where there is
// none. op names the operation in errors. It is what package store/migrations stands on.
func (s *Store) ChangeSchema(ctx context.Context, op string, change func(context.Context, *sql.DB) error) error {
	for try := 1; ; try++ {
		err := change(ctx, s.db)
		if err == nil {
			return nil
		}
		if !again(ctx, s.d.classify(err), try) && (!s.d.rivalled(err) || try == txTries) || pause(ctx, try) != nil {
			return s.wrap(op, err)
		}
	}
}

// rivalled reports whether a change may have failed because another process made it at the
// same time: what it makes is there by now.
func (d *dialect) rivalled(err error) bool {
	r, ok := d.reply(err)
	switch {
	case !ok:
		return false
	case d.name == dialectMySQL:
		return slices.Contains([]int{1050, 1060, 1061}, r.Number) // table, column, key
	case d.name == dialectPostgres:
		return slices.Contains([]string{"42P07", "42701", "42710"}, r.State) // table or index, column, object
	}
	return firstPart(r.Message) == "SQL logic error: duplicate column name"
}

// MigrationFiles are the numbered SQL files of a dialect with the prefix put in, in goose's
// form: package store/migrations applies and prints them.
func MigrationFiles(dialect, prefix string) (fs.FS, error) {
	files, err := fs.Sub(migrationFiles, path.Join("migrations", dialect))
	return prefixFS{files, prefix}, err
}

// prefixFS puts the prefix into the text of every file.
type prefixFS struct {
	fs.FS
	prefix string
}

// Open implements fs.FS.
func (p prefixFS) Open(name string) (fs.File, error) {
	file, err := p.FS.Open(name)
	if err != nil || path.Ext(name) != ".sql" {
		return file, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return prefixed{file, strings.NewReader(strings.ReplaceAll(string(text), "{{prefix}}", p.prefix))}, nil
}

// prefixed is a file with another text.
type prefixed struct {
	fs.File
	text *strings.Reader
}

// Read implements fs.File.
func (p prefixed) Read(b []byte) (int, error) { return p.text.Read(b) }
