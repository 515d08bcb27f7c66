package migrations

import (
	"context"
	"database/sql"
	"errors"
	"path"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/transmsg/transmsg/store/gormstore"
)

// Migration is one step of the schema.
type Migration struct {
	Version int64
	// Name is the file's name, such as "00001_init.sql".
	Name    string
	Applied bool
}

// Up applies the missing migrations in order and returns those it applied. Open the store
// with SkipSchemaCheck for it. Any number of processes may call it at once: on MySQL they
// take turns by a named lock of the server, elsewhere a migration is a transaction and who
// comes second finds it applied. One that failed half-way, or whose process was killed, is
// run again by the next call. One that meets a lock, such as that of a long transaction on
// PostgreSQL, gives up its place after a second, so that the others behind it go on, and
// tries again: up to the deadline of ctx, or ten times where there is none.
func Up(ctx context.Context, s *gormstore.Store) ([]Migration, error) {
	var out []Migration
	err := s.ChangeSchema(ctx, "migrate", func(ctx context.Context, db *sql.DB) error {
		p, err := provider(s, db)
		if err != nil {
			return err
		}
		// Makes the version table in turn; Up alone would do so before its lock.
		if _, err := p.Status(ctx); err != nil {
			return err
		}
		results, err := p.Up(ctx)
		var partial *goose.PartialError
		if errors.As(err, &partial) {
			results = partial.Applied
		}
		for _, r := range results {
			out = append(out, Migration{Version: r.Source.Version, Name: path.Base(r.Source.Path), Applied: true})
		}
		return err
	})
	return out, err
}

// Status returns all migrations of this build and whether each is applied. It makes the
// version table where that is missing.
func Status(ctx context.Context, s *gormstore.Store) ([]Migration, error) {
	var out []Migration
	err := s.ChangeSchema(ctx, "migration status", func(ctx context.Context, db *sql.DB) error {
		out = nil
		p, err := provider(s, db)
		if err != nil {
			return err
		}
		states, err := p.Status(ctx)
		for _, st := range states {
			out = append(out, Migration{
				Version: st.Source.Version, Name: path.Base(st.Source.Path), Applied: st.State == goose.StateApplied,
			})
		}
		return err
	})
	return out, err
}

// Open opens a store like [gormstore.Open] and applies what is missing before it checks the
// schema: for a SQLite file or memory that is the program's own, and for tests. On a server
// run `transmsg migrate up` from one place instead.
func Open(ctx context.Context, src gormstore.Source, o gormstore.Options) (*gormstore.Store, error) {
	o.SkipSchemaCheck = true
	s, err := gormstore.Open(ctx, src, o)
	if err != nil {
		return nil, err
	}
	if _, err = Up(ctx, s); err == nil {
		err = s.CheckSchema(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func provider(s *gormstore.Store, db *sql.DB) (*goose.Provider, error) {
	files, err := gormstore.MigrationFiles(s.Dialect(), s.Prefix())
	if err != nil {
		return nil, err
	}
	dialect := map[string]goose.Dialect{
		dialectMySQL: goose.DialectMySQL, dialectPostgres: goose.DialectPostgres, dialectSQLite: goose.DialectSQLite3,
	}[s.Dialect()]
	table := gormstore.VersionTable(s.Prefix())
	store, err := database.NewStore(dialect, table)
	if err != nil {
		return nil, err
	}
	options := []goose.ProviderOption{
		goose.WithStore(versions{store, s.Dialect()}),
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()),
	}
	if s.Dialect() == dialectMySQL {
		options = append(options, goose.WithSessionLocker(turn{table}))
	}
	return goose.NewProvider(goose.DialectCustom, db, files, options...)
}
