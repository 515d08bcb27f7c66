package gormstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
)

// schemaVersion is the newest migration of this build. It works on this schema and, as
// migrations only add, on the next.
const schemaVersion = 4

//go:embed migrations
var migrationFiles embed.FS

// Migration is one step of the schema.
type Migration struct {
	Version int64
	// Name is the file's name, such as "00001_init.sql".
	Name    string
	Applied bool
}

// Migrate applies the missing migrations in order and returns those it applied. Any number
// of processes may call it at once: on MySQL they take turns by a named lock of the server,
// elsewhere a migration is a transaction and who comes second finds it applied. One that
// failed half-way, or whose process was killed, is run again by the next call. One that
// meets a lock, such as that of a long transaction on PostgreSQL, gives up its
// place after a second, so that the others behind it go on, and tries again: up to the
// deadline of ctx, or ten times where there is none.
func (s *Store) Migrate(ctx context.Context) ([]Migration, error) {
	p, err := s.provider()
	if err != nil {
		return nil, s.wrap("migrate", err)
	}
	var out []Migration
	for try := 1; ; try++ {
		var results []*goose.MigrationResult
		_, err := p.Status(ctx) // makes the version table in turn; Up alone would do so before its lock
		if err == nil {
			results, err = p.Up(ctx)
		}
		var partial *goose.PartialError
		if errors.As(err, &partial) {
			results = partial.Applied
		}
		for _, r := range results {
			out = append(out, Migration{Version: r.Source.Version, Name: path.Base(r.Source.Path), Applied: true})
		}
		if err == nil {
			return out, nil
		}
		if !again(ctx, classify(err), try) && (!rivalled(err) || try == txTries) || pause(ctx, try) != nil {
			return out, s.wrap("migrate", err)
		}
	}
}

// Migrations returns all migrations of this build and whether each is applied. It makes
// the version table where that is missing.
func (s *Store) Migrations(ctx context.Context) ([]Migration, error) {
	p, err := s.provider()
	if err != nil {
		return nil, s.wrap("migration status", err)
	}
	states, err := p.Status(ctx)
	if err != nil {
		return nil, s.wrap("migration status", err)
	}
	out := make([]Migration, 0, len(states))
	for _, st := range states {
		out = append(out, Migration{
			Version: st.Source.Version, Name: path.Base(st.Source.Path), Applied: st.State == goose.StateApplied,
		})
	}
	return out, nil
}

// CheckSchema accepts the schema version of this build and the next, with the collations
// that the migrations gave to the columns, and otherwise says what to run.
func (s *Store) CheckSchema(ctx context.Context) error {
	var have int64
	err := s.db.QueryRowContext(ctx, "SELECT COALESCE(MAX(version_id), 0) FROM "+s.sql.version+" WHERE is_applied").
		Scan(&have)
	switch {
	case err != nil && !missingTable(err):
		return s.wrap("check schema", err)
	case err != nil:
		err = fmt.Errorf("table %s does not exist: run `transmsg migrate up`", s.sql.version)
	case have < schemaVersion:
		err = fmt.Errorf("schema version %d is older than %d: run `transmsg migrate up`", have, schemaVersion)
	case have > schemaVersion+1:
		err = fmt.Errorf("schema version %d is newer than %d, the newest this build works on: upgrade transmsg",
			have, schemaVersion+1)
	default:
		err = s.checkColumns(ctx)
	}
	return s.wrap("check schema", err)
}

// MigrationSQL returns the text of all migrations for the database of dsn, which is not
// contacted, with the rows of the version table that Migrate would write: for those who
// apply schema changes by themselves.
func MigrationSQL(dsn string, o Options) (string, error) {
	o, err := o.withDefaults()
	if err != nil {
		return "", fmt.Errorf("gormstore: migration sql: %w", err)
	}
	t, err := parseDSN(dsn)
	if err != nil {
		return "", fmt.Errorf("gormstore: migration sql: %w", err)
	}
	files, err := migrations(t.dialect, o.Prefix)
	if err != nil {
		return "", fmt.Errorf("gormstore: migration sql: %w", err)
	}
	table := newStatements(dialectOf(t.dialect), o.Prefix).version
	var b strings.Builder
	fmt.Fprintf(&b, "%s;\nINSERT INTO %s (version_id, is_applied) VALUES (0, %s);\n",
		versionTable(t.dialect, table), table, truth(t.dialect))
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return "", fmt.Errorf("gormstore: migration sql: %w", err)
	}
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return "", fmt.Errorf("gormstore: migration sql: %w", err)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return "", fmt.Errorf("gormstore: migration sql: %w", err)
		}
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		fmt.Fprintf(&b, "\n-- %s\n%s\nINSERT INTO %s (version_id, is_applied) VALUES (%d, %s);\n", name,
			strings.TrimSpace(strings.Replace(up, "-- +goose Up", "", 1)), table, version, truth(t.dialect))
	}
	return b.String(), nil
}

// migrations are the embedded files of a dialect with the prefix put in.
func migrations(dialect, prefix string) (fs.FS, error) {
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

func (s *Store) provider() (*goose.Provider, error) {
	files, err := migrations(s.d.name, s.opt.Prefix)
	if err != nil {
		return nil, err
	}
	dialect := map[string]goose.Dialect{
		dialectMySQL: goose.DialectMySQL, dialectPostgres: goose.DialectPostgres, dialectSQLite: goose.DialectSQLite3,
	}[s.d.name]
	store, err := database.NewStore(dialect, s.sql.version)
	if err != nil {
		return nil, err
	}
	options := []goose.ProviderOption{
		goose.WithStore(versions{store, s.d.name}),
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()),
	}
	if s.d.name == dialectMySQL {
		options = append(options, goose.WithSessionLocker(turn{s.sql.version}))
	}
	return goose.NewProvider(goose.DialectCustom, s.db, files, options...)
}
