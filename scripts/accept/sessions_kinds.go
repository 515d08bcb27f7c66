package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"github.com/transmsg/transmsg/publisher"
)

// opened is a handle that a caller hands to Publisher.Tx, and what ends it.
type opened struct {
	x            publisher.Execer
	commit, undo func() error
}

// handleKind makes handles of a kind; what is no transaction must be refused.
type handleKind struct {
	name        string
	transaction bool
	open        func(context.Context, *gorm.DB) (opened, error)
}

func handleKinds(store string) []handleKind {
	none := func() error { return nil }
	kinds := []handleKind{
		{"transaction", true, func(ctx context.Context, db *gorm.DB) (opened, error) {
			pool, err := db.DB()
			if err != nil {
				return opened{}, err
			}
			tx, err := pool.BeginTx(ctx, nil)
			if err != nil {
				return opened{}, err
			}
			return opened{tx, tx.Commit, tx.Rollback}, nil
		}},
		{"gorm's transaction", true, func(ctx context.Context, db *gorm.DB) (opened, error) {
			tx := db.WithContext(ctx).Begin()
			return opened{
				tx.Statement.ConnPool,
				func() error { return tx.Commit().Error }, func() error { return tx.Rollback().Error },
			}, tx.Error
		}},
		{"connection with BEGIN", true, openConn("BEGIN")},
		{"connection", false, openConn()},
		{"pool", false, func(_ context.Context, db *gorm.DB) (opened, error) {
			return opened{db.Statement.ConnPool, none, none}, nil
		}},
		{"connection after its ROLLBACK", false, openConn("BEGIN", "ROLLBACK")},
	}
	if store == "postgres" {
		return kinds
	}
	return append(kinds, handleKind{"transaction after its ROLLBACK", false, // as after a deadlock
		func(ctx context.Context, db *gorm.DB) (opened, error) {
			pool, err := db.DB()
			if err != nil {
				return opened{}, err
			}
			tx, err := pool.BeginTx(ctx, nil)
			if err != nil {
				return opened{}, err
			}
			_, err = tx.ExecContext(ctx, "ROLLBACK")
			return opened{tx, none, none}, err
		}})
}

// openConn takes a connection and runs the statements on it.
func openConn(statements ...string) func(context.Context, *gorm.DB) (opened, error) {
	return func(ctx context.Context, db *gorm.DB) (opened, error) {
		pool, err := db.DB()
		if err != nil {
			return opened{}, err
		}
		conn, err := pool.Conn(ctx)
		if err != nil {
			return opened{}, err
		}
		for _, s := range statements {
			if _, err := conn.ExecContext(ctx, s); err != nil {
				return opened{}, errors.Join(err, conn.Close())
			}
		}
		end := func(statement string) func() error {
			return func() error {
				if len(statements) != 1 { // none is open
					return conn.Close()
				}
				_, err := conn.ExecContext(ctx, statement)
				return errors.Join(err, conn.Close())
			}
		}
		return opened{conn, end("COMMIT"), end("ROLLBACK")}, nil
	}
}

// callersPool has one connection, in a session of the seed's choosing.
func (c *sessions) callersPool(ctx context.Context) (*gorm.DB, error) {
	db, err := openGorm(c.Store, c.dsn)
	if err != nil {
		return nil, err
	}
	pool, err := db.DB()
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(1)
	for _, among := range sessionStatements(c.Store) {
		if err := execPlain(ctx, pool, among[c.Rand.IntN(len(among))]); err != nil {
			return nil, errors.Join(err, pool.Close())
		}
	}
	return db.Session(&gorm.Session{PrepareStmt: c.Rand.IntN(2) == 0}), nil
}

func execPlain(ctx context.Context, pool *sql.DB, statement string) error {
	if _, err := pool.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// sessionStatements has of each list one for a session.
func sessionStatements(store string) [][]string {
	switch store {
	case "mysql":
		return [][]string{
			{
				"SET NAMES latin1", "SET NAMES utf8mb3", "SET NAMES ascii", "SET NAMES gbk", "SET NAMES utf8mb4",
				"SET CHARACTER SET latin1", "SET SESSION character_set_client = cp1251",
				"SET SESSION collation_connection = latin1_bin",
			},
			{"SET SESSION sql_mode = ''", "SET SESSION sql_mode = 'STRICT_ALL_TABLES,ANSI_QUOTES'", "DO 1"},
			{
				"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
				"SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "DO 1",
			},
		}
	case "postgres":
		return [][]string{
			{
				"SET client_encoding = 'LATIN1'", "SET client_encoding = 'WIN1251'", "SET client_encoding = 'UTF8'",
				"SET client_encoding = 'SQL_ASCII'",
			},
			{
				"SET default_transaction_isolation = 'serializable'",
				"SET default_transaction_isolation = 'read committed'",
			},
		}
	}
	return [][]string{{"PRAGMA encoding = 'UTF-16le'", "PRAGMA case_sensitive_like = 1"}}
}

// sessionParams are what a DSN may say that New must refuse, and the word that names it.
func sessionParams(store string) map[string]string {
	switch store {
	case "mysql":
		return map[string]string{
			"?charset=latin1": "character_set_client", "?charset=utf8": "character_set_client",
			"?character_set_results=latin1": "character_set_results", "?sql_mode=%27%27": "STRICT_TRANS_TABLES",
			"?autocommit=0": "autocommit",
		}
	case "postgres":
		return map[string]string{"&client_encoding=LATIN1": "client_encoding"}
	}
	return nil
}
