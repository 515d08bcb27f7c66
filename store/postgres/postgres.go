// Package postgres is the source of a store in PostgreSQL 13+. It links pgx and no other
// driver.
package postgres

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"

	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/internal/dial"
)

const (
	unixForm = "postgres://user:password@/database?host=/FOLDER"
	forms    = "the forms are postgres://user:password@host:5432/database and, over a Unix socket, " + unixForm
)

// DSN opens a small pool of the store's own, the usual choice: storing a message then never
// waits for a connection that the service's own open transactions hold. The form is
// postgres://user:password@host:port/database?parameters, or over a Unix socket
// postgres://user:password@/database?host=/FOLDER. A mistake in it is an
// error of gormstore.Open, which never contains the password.
func DSN(dsn string) gormstore.Source {
	cfg, label, err := parse(dsn)
	if err != nil {
		return gormstore.Refused(err)
	}
	return gormstore.OwnPool(driver, label, func(o gormstore.Options) (*sql.DB, error) { return open(cfg, o) })
}

// SQL is the service's own pool, opened with pgx's stdlib; its settings stay as they are, and
// it stays the caller's to close.
func SQL(db *sql.DB) gormstore.Source { return gormstore.CallersPool(driver, db) }

// Gorm is the service's own *gorm.DB, opened with gorm.io/driver/postgres; its pool's
// settings stay as they are, and it stays the caller's to close.
func Gorm(db *gorm.DB) gormstore.Source { return gormstore.CallersGorm(driver, db) }

var driver = gormstore.Driver{
	Dialect: "postgres", Reply: reply, NotSent: pgconn.SafeToRetry, Lost: lost, Check: ownSessions,
}

func lost(err error) bool {
	var connect *pgconn.ConnectError
	return errors.As(err, &connect)
}

func reply(err error) (gormstore.Reply, bool) {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return gormstore.Reply{}, false
	}
	return gormstore.Reply{State: refused.Code, Message: refused.Message}, true
}

// parse reads a DSN and names its server. Its errors never quote the DSN: a part that cannot
// be parsed may be the password.
func parse(dsn string) (cfg *pgx.ConnConfig, label string, err error) {
	switch {
	case dsn == "":
		return nil, "", errors.New("dsn is empty; " + forms)
	case !strings.HasPrefix(dsn, "postgres:") && !strings.HasPrefix(dsn, "postgresql:"):
		return nil, "", errors.New("dsn has no known form; " + forms)
	}
	u, err := dial.ParseURL(dsn, "host", unixForm)
	if err != nil {
		return nil, "", err
	}
	if cfg, err = pgx.ParseConfig(dsn); err != nil {
		// pgx redacts the password itself, but not a password among the parameters.
		return nil, "", errors.New("dsn is not valid for postgres: check port, sslmode and certificate files")
	}
	if strings.TrimPrefix(u.Path, "/") == "" && !u.Query().Has("dbname") {
		return nil, "", errors.New("dsn names no database: put /NAME after host and port")
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = dial.Timeout
	}
	cfg.RuntimeParams["client_encoding"] = "UTF8" // what the driver sends, whatever the DSN says
	cfg.BuildFrontend = frontend
	return cfg, fmt.Sprintf("postgres %s/%s", cmp.Or(u.Host, cfg.Host), cfg.Database), nil
}
