package main

import (
	"context"
	"database/sql"

	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/publisher/gormtx"
)

// conduit is how a service runs its transactions, on a pool of the service's own.
type conduit interface {
	// transaction runs fn as the library's wrapper does, commits and sends.
	transaction(ctx context.Context, p *publisher.Publisher, fn func(session) error) error
	// begin opens one by hand; the caller may commit through the Tx, or not.
	begin(ctx context.Context, p *publisher.Publisher) (s session, commit func() error, err error)
	close() error
}

// session is an open transaction, its statements with the placeholder ?.
type session struct {
	out       *publisher.Tx
	exec      func(ctx context.Context, query string, args ...any) error
	number    func(ctx context.Context, query string) (int, error)
	savepoint func(ctx context.Context, fn func(session) error) error
}

// conduits are the names for openConduit.
func conduits() []string { return []string{"database/sql", "gorm"} }

func openConduit(via, dialect, dsn string) (conduit, error) {
	if via == "database/sql" {
		t, err := openTable(dialect, dsn)
		return sqlConduit{t}, err
	}
	dialector := gormmysql.Open(dsn)
	if dialect == "postgres" {
		dialector = gormpostgres.Open(dsn)
	}
	db, err := gorm.Open(dialector, &gorm.Config{Logger: logger.Discard})
	return gormConduit{db}, err
}

type sqlConduit struct{ *table }

func (c sqlConduit) close() error { return c.db.Close() }

func (c sqlConduit) transaction(ctx context.Context, p *publisher.Publisher, fn func(session) error) error {
	return publisher.InTx(ctx, p, c.db, nil, func(ctx context.Context, tx *sql.Tx, out *publisher.Tx) error {
		return fn(c.session(tx, out))
	})
}

func (c sqlConduit) begin(ctx context.Context, p *publisher.Publisher) (session, func() error, error) {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return session{}, nil, err
	}
	return c.session(tx, p.Tx(tx)), tx.Commit, nil
}

func (c sqlConduit) session(tx *sql.Tx, out *publisher.Tx) session {
	s := session{out: out}
	s.exec = func(ctx context.Context, query string, args ...any) error {
		_, err := tx.ExecContext(ctx, c.rebind(query), args...)
		return err
	}
	s.number = func(ctx context.Context, query string) (n int, err error) {
		return n, tx.QueryRowContext(ctx, query).Scan(&n)
	}
	s.savepoint = func(ctx context.Context, fn func(session) error) error {
		return out.Savepoint(ctx, func() error { return fn(s) })
	}
	return s
}

type gormConduit struct{ db *gorm.DB }

func (c gormConduit) close() error {
	db, err := c.db.DB()
	if err != nil {
		return err
	}
	return db.Close()
}

func (c gormConduit) transaction(ctx context.Context, p *publisher.Publisher, fn func(session) error) error {
	return gormtx.Transaction(ctx, p, c.db, func(ctx context.Context, tx *gorm.DB, out *publisher.Tx) error {
		return fn(gormSession(tx, out))
	})
}

func (c gormConduit) begin(ctx context.Context, p *publisher.Publisher) (session, func() error, error) {
	tx := c.db.WithContext(ctx).Begin()
	if tx.Error != nil {
		return session{}, nil, tx.Error
	}
	return gormSession(tx, p.Tx(tx.Statement.ConnPool)), func() error { return tx.Commit().Error }, nil
}

func gormSession(tx *gorm.DB, out *publisher.Tx) session {
	return session{
		out: out,
		exec: func(ctx context.Context, query string, args ...any) error {
			return tx.WithContext(ctx).Exec(query, args...).Error
		},
		number: func(ctx context.Context, query string) (n int, err error) {
			return n, tx.WithContext(ctx).Raw(query).Scan(&n).Error
		},
		savepoint: func(ctx context.Context, fn func(session) error) error {
			return tx.WithContext(ctx).Transaction(func(nested *gorm.DB) error { return fn(gormSession(nested, out)) })
		},
	}
}
