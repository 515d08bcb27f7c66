package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/internal/faultproxy"
)

// pair is a MariaDB and its semi-synchronous replica behind an address that moves.
type pair struct {
	primary, replica *dbtest.MariaDBServer
	address          *faultproxy.Proxy
	schema           string
	admin            *sql.DB // through the address
}

func openPair(ctx context.Context) (_ *pair, err error) {
	p := &pair{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	for id, s := range []**dbtest.MariaDBServer{&p.primary, &p.replica} {
		*s, err = dbtest.NewMariaDB(ctx, "", dbtest.MariaDBOptions{
			ServerID: id + 1, SemiSync: true, Flags: []string{"--max-connections=400"},
		})
		if err != nil {
			return nil, err
		}
	}
	if p.primary.Oracle() {
		return nil, errors.New("--failover is written for MariaDB, and the programs here are MySQL's")
	}
	if err = p.primary.Exec(ctx, "SET GLOBAL read_only = OFF"); err != nil {
		return nil, err
	}
	if p.schema, err = p.primary.NewSchema(ctx); err != nil {
		return nil, err
	}
	if err = p.replica.Attach(ctx, p.primary); err != nil {
		return nil, err
	}
	if p.address, err = faultproxy.New(p.primary.Addr()); err != nil {
		return nil, err
	}
	p.admin, err = sql.Open("mysql", p.at(p.primary.AdminDSN(p.schema)))
	return p, err
}

// at puts the address that moves into a DSN of the primary.
func (p *pair) at(dsn string) string { return replaceAddr(dsn, p.primary.Addr(), p.address.Addr()) }

func (p *pair) dsn() string                     { return p.at(p.primary.DSN(p.schema)) }
func (p *pair) pool() *sql.DB                   { return p.admin }
func (p *pair) start(ctx context.Context) error { return p.primary.Start(ctx) }
func (p *pair) stop() error                     { return p.primary.Stop() }
func (p *pair) kill() error                     { return p.primary.Kill() }

func (p *pair) readOnly(ctx context.Context, on bool) error {
	return p.primary.Exec(ctx, fmt.Sprintf("SET GLOBAL read_only = %t", on))
}

func (p *pair) waiting(ctx context.Context) (int, error) { return p.primary.LockWaits(ctx) }

func (p *pair) lock(ctx context.Context) (func() error, error) {
	return p.primary.LockTable(ctx, p.schema, "trans_message")
}

func (p *pair) close() error {
	var errs []error
	if p.admin != nil {
		errs = append(errs, p.admin.Close())
	}
	if p.address != nil {
		errs = append(errs, p.address.Close())
	}
	for _, s := range []*dbtest.MariaDBServer{p.primary, p.replica} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// promote makes the replica the primary. The address still leads to the old one.
func (p *pair) promote(ctx context.Context) error {
	if err := p.replica.Promote(ctx); err != nil {
		return err
	}
	p.primary, p.replica = p.replica, p.primary
	return nil
}

// move leads new connections to the primary; cut ends those to the old one.
func (p *pair) move(cut bool) {
	p.address.Aim(p.primary.Addr())
	if cut {
		p.address.Cut(true)
	}
}

// rejoin makes the old primary the replica, without what nobody was told of.
func (p *pair) rejoin(ctx context.Context) error { return p.replica.Attach(ctx, p.primary) }

// freeze stops the old primary in the midst of what it does; thaw lets it go on for a moment
// and ends it.
func (p *pair) freeze() error { return p.primary.Pause() }

func (p *pair) thaw() error { return errors.Join(p.replica.Resume(), p.replica.Kill()) }

// identity is which server answers at the address.
func (p *pair) identity(ctx context.Context) (id string, err error) {
	err = p.admin.QueryRowContext(ctx, "SELECT CONCAT(@@GLOBAL.server_id, ' read_only ', @@GLOBAL.read_only)").Scan(&id)
	return id, err
}

// barred makes the primary refuse writes, and waits until the replica has all that it took.
func (p *pair) barred(ctx context.Context) error {
	if err := p.readOnly(ctx, true); err != nil {
		return err
	}
	return p.replica.InStep(ctx, p.primary)
}
