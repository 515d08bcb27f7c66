package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"

	"github.com/go-sql-driver/mysql"

	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/internal/dial"
)

// session sets the state of every connection of the own pool: READ COMMITTED, in the one
// syntax that MySQL and MariaDB share whatever they call the variable; autocommit, without
// which a statement by itself would never be committed; strictness, since a value that is
// cut is another message; the columns' character set, whatever the DSN says; and a short
// wait for locks. One that is not free in a second belongs to somebody who thinks or sleeps:
// then those who share the statement part from the one row that is locked.
func session() []string {
	return []string{
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
		"SET NAMES utf8mb4, SESSION autocommit = 1, SESSION innodb_lock_wait_timeout = 1, " +
			"SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_TRANS_TABLES')",
	}
}

// open makes the pool; nothing is dialled yet.
func open(parsed *mysql.Config, o gormstore.Options) (*sql.DB, error) {
	cfg := parsed.Clone()
	if err := cfg.Apply(mysql.BeforeConnect(func(ctx context.Context, cfg *mysql.Config) error {
		return beforeConnect(ctx, o, cfg)
	})); err != nil {
		return nil, err
	}
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, errors.New("the dsn's settings are refused by the driver")
	}
	return sql.OpenDB(dial.Session{Connector: c, Statements: session(), Within: cfg.Timeout + dial.Timeout}), nil
}

// beforeConnect asks for what one connection needs; cfg is its own copy.
func beforeConnect(ctx context.Context, o gormstore.Options, cfg *mysql.Config) (err error) {
	if o.Credentials != nil {
		if cfg.User, cfg.Passwd, err = o.Credentials(ctx); err != nil {
			return fmt.Errorf("get credentials: %w", err)
		}
	}
	if o.TLS == nil {
		return nil
	}
	host, _, err := net.SplitHostPort(cfg.Addr)
	if err != nil {
		return errors.New("options: TLS is for TCP, the dsn names a Unix socket")
	}
	cfg.TLS, err = dial.TLS(ctx, o, host)
	cfg.AllowFallbackToPlaintext = false
	return err
}
