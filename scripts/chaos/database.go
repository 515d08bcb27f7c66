package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/transmsg/transmsg/internal/dbtest"
)

// database is the private database of a run, seen from outside the product.
type database interface {
	dsn() string
	// pool is a pool of our own as an administrator; it survives restarts.
	pool() *sql.DB
	start(context.Context) error
	stop() error
	kill() error
	// readOnly makes the server refuse writes of the product, or ends that.
	readOnly(context.Context, bool) error
	// lock keeps everybody off the table of messages until unlock.
	lock(context.Context) (unlock func() error, err error)
	// waiting is how many connections wait for the lock.
	waiting(context.Context) (int, error)
	close() error
}

func openDatabase(ctx context.Context, o options, file string) (database, error) {
	switch {
	case o.mode == modeGalera:
		return openGalera(ctx)
	case o.mode == modeFailover && o.store == storeMySQL:
		return openMariaPair(ctx)
	case o.mode == modeFailover && o.store == storePostgres:
		return openPostgresPair(ctx)
	case o.store == storeMySQL:
		return openMaria(ctx)
	case o.store == storePostgres:
		return openPostgres(ctx)
	default:
		return openSQLite(file)
	}
}

type maria struct {
	*dbtest.MariaDBServer
	schema string
	admin  *sql.DB
}

func openMaria(ctx context.Context) (*maria, error) {
	// Room for three pools of publishers and three of compensators, and their successors.
	s, err := dbtest.NewMariaDB(ctx, "", dbtest.MariaDBOptions{Flags: []string{"--max-connections=400"}})
	if err != nil {
		return nil, err
	}
	m := &maria{MariaDBServer: s}
	if m.schema, err = s.NewSchema(ctx); err == nil {
		m.admin, err = sql.Open("mysql", s.AdminDSN(m.schema))
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return m, nil
}

func (m *maria) dsn() string                                    { return m.DSN(m.schema) }
func (m *maria) pool() *sql.DB                                  { return m.admin }
func (m *maria) start(ctx context.Context) error                { return m.Start(ctx) }
func (m *maria) stop() error                                    { return m.Stop() }
func (m *maria) kill() error                                    { return m.Kill() }
func (m *maria) readOnly(ctx context.Context, on bool) error    { return m.ReadOnly(ctx, on) }
func (m *maria) waiting(ctx context.Context) (n int, err error) { return m.LockWaits(ctx) }
func (m *maria) close() error                                   { return errors.Join(m.admin.Close(), m.Close()) }

func (m *maria) lock(ctx context.Context) (func() error, error) {
	return m.LockTable(ctx, m.schema, "trans_message")
}

type postgres struct {
	*dbtest.PostgresServer
	name  string
	admin *sql.DB
}

func openPostgres(ctx context.Context) (*postgres, error) {
	s, err := dbtest.NewPostgresServer(ctx, "")
	if err != nil {
		return nil, err
	}
	p := &postgres{PostgresServer: s}
	if p.name, err = s.NewDatabase(ctx); err == nil {
		p.admin, err = sql.Open("pgx", s.DSN(p.name))
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return p, nil
}

func (p *postgres) dsn() string                     { return p.DSN(p.name) }
func (p *postgres) pool() *sql.DB                   { return p.admin }
func (p *postgres) start(ctx context.Context) error { return p.Start(ctx) }
func (p *postgres) stop() error                     { return p.Stop() }
func (p *postgres) kill() error                     { return p.Kill() }

// readOnly is what a fail-over to a standby looks like to those who stay connected.
func (p *postgres) readOnly(ctx context.Context, on bool) error { return p.ReadOnly(ctx, on) }

func (p *postgres) close() error { return errors.Join(p.admin.Close(), p.Close()) }

func (p *postgres) lock(ctx context.Context) (func() error, error) {
	tx, err := p.admin.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, "LOCK TABLE trans_message IN ACCESS EXCLUSIVE MODE"); err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return tx.Rollback, nil
}

func (p *postgres) waiting(ctx context.Context) (n int, err error) {
	err = p.admin.QueryRowContext(ctx, "SELECT count(*) FROM pg_locks WHERE NOT granted").Scan(&n)
	return n, err
}

// errNoServer: plans for a file have no such step.
var errNoServer = errors.New("sqlite is no server")

type sqliteFile struct {
	path  string
	admin *sql.DB
}

func openSQLite(path string) (*sqliteFile, error) {
	s := &sqliteFile{path: path}
	var err error
	s.admin, err = openPool("sqlite", s.dsn())
	return s, err
}

func (s *sqliteFile) dsn() string                          { return "sqlite:" + s.path }
func (s *sqliteFile) pool() *sql.DB                        { return s.admin }
func (s *sqliteFile) start(context.Context) error          { return errNoServer }
func (s *sqliteFile) stop() error                          { return errNoServer }
func (s *sqliteFile) kill() error                          { return errNoServer }
func (s *sqliteFile) readOnly(context.Context, bool) error { return errNoServer }
func (s *sqliteFile) waiting(context.Context) (int, error) { return 0, nil } // seen in what waits
func (s *sqliteFile) close() error                         { return s.admin.Close() }

// lock takes the one write lock that a file has; every transaction here begins with it.
func (s *sqliteFile) lock(ctx context.Context) (func() error, error) {
	tx, err := s.admin.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	return tx.Rollback, nil
}
