package gormstore

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/libtnb/sqlite"
)

// open makes the pool; nothing is dialled yet.
func (t target) open(o Options) (*sql.DB, error) {
	if t.dialect == dialectSQLite && (o.TLS != nil || o.Credentials != nil) {
		return nil, errors.New("options: TLS and Credentials are for database servers, SQLite is a file")
	}
	switch t.dialect {
	case dialectMySQL:
		cfg := t.mysql.Clone()
		if err := cfg.Apply(mysql.BeforeConnect(o.beforeMySQL)); err != nil {
			return nil, err
		}
		c, err := mysql.NewConnector(cfg)
		if err != nil {
			return nil, errors.New("the dsn's settings are refused by the driver")
		}
		return sql.OpenDB(session{c, mysqlSession(), cfg.Timeout + dialTimeout}), nil
	case dialectPostgres:
		c := stdlib.GetConnector(*t.pg, stdlib.OptionBeforeConnect(o.beforePostgres))
		within := t.pg.ConnectTimeout*time.Duration(1+len(t.pg.Fallbacks)) + dialTimeout
		return sql.OpenDB(session{c, postgresSession(), within}), nil
	default:
		return sql.Open(sqlite.DriverName, t.sqlite)
	}
}

// beforeMySQL asks for what one connection needs; cfg is its own copy.
func (o Options) beforeMySQL(ctx context.Context, cfg *mysql.Config) (err error) {
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
	cfg.TLS, err = o.tlsFor(ctx, host)
	cfg.AllowFallbackToPlaintext = false
	return err
}

// beforePostgres does the same; of cfg only its immediate fields are the connection's own.
func (o Options) beforePostgres(ctx context.Context, cfg *pgx.ConnConfig) (err error) {
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
	if cfg.TLSConfig, err = o.tlsFor(ctx, cfg.Host); err != nil {
		return err
	}
	// By default a dsn also allows a second try without TLS.
	others := cfg.Fallbacks
	cfg.Fallbacks = nil
	for _, f := range others {
		settings, err := o.tlsFor(ctx, f.Host)
		if err != nil {
			return err
		}
		cfg.Fallbacks = append(cfg.Fallbacks, &pgconn.FallbackConfig{Host: f.Host, Port: f.Port, TLSConfig: settings})
	}
	return nil
}

// tlsFor returns settings that are this connection's alone.
func (o Options) tlsFor(ctx context.Context, host string) (*tls.Config, error) {
	given, err := o.TLS(ctx)
	if err != nil {
		return nil, fmt.Errorf("get TLS settings: %w", err)
	}
	settings := given.Clone()
	if settings == nil {
		settings = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if settings.ServerName == "" {
		settings.ServerName = host
	}
	return settings, nil
}
