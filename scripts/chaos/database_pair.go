package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/internal/faultproxy"
)

// server is a database server that may be the primary or its synchronous replica.
type server[S any] interface {
	DSN(database string) string
	Addr() string
	Start(ctx context.Context) error
	Kill() error
	Pause() error
	Resume() error
	Close() error
	ReadOnly(ctx context.Context, on bool) error
	Attach(ctx context.Context, primary S) error
	InStep(ctx context.Context, primary S) error
	Promote(ctx context.Context) error
}

// pair is a primary and its replica behind an address that moves.
type pair[S server[S]] struct {
	primary, replica S
	opened           []S
	address          *faultproxy.Proxy
	name             string  // of the database
	admin            *sql.DB // through the address
	who              string  // asks which server answers, and whether it takes writes
}

// openMariaPair opens a MariaDB with a semi-synchronous replica.
func openMariaPair(ctx context.Context) (*pair[*dbtest.MariaDBServer], error) {
	p := &pair[*dbtest.MariaDBServer]{who: "SELECT CONCAT(@@GLOBAL.server_id, ' read_only ', @@GLOBAL.read_only)"}
	return p, p.open(ctx, "mysql", func(id int) (*dbtest.MariaDBServer, error) {
		s, err := dbtest.NewMariaDB(ctx, "", dbtest.MariaDBOptions{
			ServerID: id, SemiSync: true, Flags: []string{"--max-connections=400"},
		})
		switch {
		case err != nil:
			return nil, err
		case s.Oracle():
			err = errors.New("--failover is written for MariaDB, and the programs here are MySQL's")
			return nil, errors.Join(err, s.Close())
		case id == 1:
			err = s.ReadOnly(ctx, false)
		}
		return s, err
	}, (*dbtest.MariaDBServer).NewSchema, (*dbtest.MariaDBServer).AdminDSN)
}

// openPostgresPair opens a PostgreSQL with a synchronous standby.
func openPostgresPair(ctx context.Context) (*pair[*dbtest.PostgresServer], error) {
	p := &pair[*dbtest.PostgresServer]{
		who: "SELECT inet_server_port() || ' read only ' || current_setting('transaction_read_only')",
	}
	return p, p.open(ctx, "pgx", func(int) (*dbtest.PostgresServer, error) {
		return dbtest.NewPostgresServer(ctx, "")
	}, (*dbtest.PostgresServer).NewDatabase, (*dbtest.PostgresServer).DSN)
}

// open starts both servers, numbered from 1, and makes the second one the replica.
func (p *pair[S]) open(
	ctx context.Context, driver string, start func(id int) (S, error),
	create func(S, context.Context) (string, error), adminDSN func(S, string) string,
) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	for id, s := range []*S{&p.primary, &p.replica} {
		if *s, err = start(id + 1); err != nil {
			return err
		}
		p.opened = append(p.opened, *s)
	}
	if p.name, err = create(p.primary, ctx); err != nil {
		return err
	}
	if err = p.replica.Attach(ctx, p.primary); err != nil {
		return err
	}
	if p.address, err = faultproxy.New(p.primary.Addr()); err != nil {
		return err
	}
	p.admin, err = sql.Open(driver, p.at(adminDSN(p.primary, p.name)))
	return err
}

// at puts the address that moves into a DSN of the primary.
func (p *pair[S]) at(dsn string) string { return replaceAddr(dsn, p.primary.Addr(), p.address.Addr()) }

func (p *pair[S]) dsn() string   { return p.at(p.primary.DSN(p.name)) }
func (p *pair[S]) pool() *sql.DB { return p.admin }
func (p *pair[S]) kill() error   { return p.primary.Kill() }

// None of these is a fault of the mode.
func (p *pair[S]) start(context.Context) error                { return errNoServer }
func (p *pair[S]) stop() error                                { return errNoServer }
func (p *pair[S]) readOnly(context.Context, bool) error       { return errNoServer }
func (p *pair[S]) waiting(context.Context) (int, error)       { return 0, errNoServer }
func (p *pair[S]) lock(context.Context) (func() error, error) { return nil, errNoServer }

func (p *pair[S]) close() error {
	var errs []error
	if p.admin != nil {
		errs = append(errs, p.admin.Close())
	}
	if p.address != nil {
		errs = append(errs, p.address.Close())
	}
	for _, s := range p.opened {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// promote makes the replica the primary. The address still leads to the old one.
func (p *pair[S]) promote(ctx context.Context) error {
	if err := p.replica.Promote(ctx); err != nil {
		return err
	}
	p.primary, p.replica = p.replica, p.primary
	return nil
}

// move leads new connections to the primary; cut ends those to the old one.
func (p *pair[S]) move(cut bool) {
	p.address.Aim(p.primary.Addr())
	if cut {
		p.address.Cut(true)
	}
}

// rejoin makes the old primary the replica, without what nobody was told of.
func (p *pair[S]) rejoin(ctx context.Context) error { return p.replica.Attach(ctx, p.primary) }

// freeze stops the old primary in the midst of what it does; thaw lets it go on for a moment
// and ends it.
func (p *pair[S]) freeze() error { return p.primary.Pause() }

func (p *pair[S]) thaw() error { return errors.Join(p.replica.Resume(), p.replica.Kill()) }

// identity is which server answers at the address.
func (p *pair[S]) identity(ctx context.Context) (id string, err error) {
	err = p.admin.QueryRowContext(ctx, p.who).Scan(&id)
	return id, err
}

// barred makes the primary refuse writes, and waits until the replica has all that it took.
func (p *pair[S]) barred(ctx context.Context) error {
	if err := p.primary.ReadOnly(ctx, true); err != nil {
		return err
	}
	return p.replica.InStep(ctx, p.primary)
}
