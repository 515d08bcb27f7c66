package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/internal/dial"
)

// session sets the state of every connection of the own pool. A lock that is not free in a
// second belongs to somebody who thinks or sleeps: then those who share the statement part
// from the one row that is locked.
func session() []string {
	return []string{
		"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET lock_timeout = '1s'",
	}
}

// open makes the pool; nothing is dialled yet.
func open(cfg *pgx.ConnConfig, o gormstore.Options) (*sql.DB, error) {
	var looked atomic.Bool
	c := stdlib.GetConnector(*cfg, stdlib.OptionBeforeConnect(func(ctx context.Context, cfg *pgx.ConnConfig) error {
		return beforeConnect(ctx, o, cfg)
	}), stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		if looked.Load() {
			return nil
		}
		err := ownSession(ctx, c)
		looked.Store(err == nil)
		return err
	}))
	within := cfg.ConnectTimeout*time.Duration(1+len(cfg.Fallbacks)) + dial.Timeout
	return sql.OpenDB(dial.Session{Connector: c, Statements: session(), Within: within}), nil
}

// beforeConnect asks for what one connection needs; of cfg only its immediate fields are the
// connection's own.
func beforeConnect(ctx context.Context, o gormstore.Options, cfg *pgx.ConnConfig) (err error) {
	if o.Credentials != nil {
		if cfg.User, cfg.Password, err = o.Credentials(ctx); err != nil {
			return fmt.Errorf("get credentials: %w", err)
		}
	}
	if o.TLS == nil {
		return nil
	}
	if strings.HasPrefix(cfg.Host, "/") {
		return errors.New("options: TLS is for TCP, the dsn names a Unix socket")
	}
	if cfg.TLSConfig, err = dial.TLS(ctx, o, cfg.Host); err != nil {
		return err
	}
	// By default a dsn also allows a second try without TLS.
	others := cfg.Fallbacks
	cfg.Fallbacks = nil
	for _, f := range others {
		settings, err := dial.TLS(ctx, o, f.Host)
		if err != nil {
			return err
		}
		cfg.Fallbacks = append(cfg.Fallbacks, &pgconn.FallbackConfig{Host: f.Host, Port: f.Port, TLSConfig: settings})
	}
	return nil
}
