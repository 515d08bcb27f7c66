package bench

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/url"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/libtnb/sqlite"
)

// poolConfig has the settings that the store gives its own pool: one round trip a
// statement and the server's own packet limit.
func poolConfig(base *mysql.Config, database string) *mysql.Config {
	cfg := base.Clone()
	cfg.DBName = database
	cfg.InterpolateParams, cfg.MaxAllowedPacket = true, 0
	cfg.ParseTime, cfg.Loc = true, time.UTC
	cfg.Logger = &mysql.NopLogger{}
	return cfg
}

func openMySQL(cfg *mysql.Config, conns int) (*sql.DB, error) {
	c, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, errors.New("the store's settings are refused by the driver")
	}
	return sized(sql.OpenDB(readCommitted{c}), conns), nil
}

// readCommitted sets the store's isolation level on every new connection.
type readCommitted struct{ driver.Connector }

// Connect implements driver.Connector.
func (r readCommitted) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := r.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	x, ok := conn.(driver.ExecerContext)
	if !ok {
		return nil, errors.Join(errors.New("the driver cannot execute statements"), conn.Close())
	}
	if _, err = x.ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", nil); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func openPostgres(dsn string, conns int) (*sql.DB, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("the store's settings are refused by the driver")
	}
	const level = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED"
	db := stdlib.OpenDB(*cfg, stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, level)
		return err
	}))
	return sized(db, conns), nil
}

// openSQLite has the store's pragmas and its one connection.
func openSQLite(path string) (*sql.DB, error) {
	db, err := sql.Open(sqlite.DriverName, "file:"+(&url.URL{Path: path}).EscapedPath()+
		"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)&_pragma=journal_mode(WAL)")
	if err != nil {
		return nil, err
	}
	return sized(db, 1), nil
}

func sized(db *sql.DB, conns int) *sql.DB {
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db
}

// execAs runs one statement on a connection of its own.
func execAs(ctx context.Context, cfg *mysql.Config, statement string) error {
	db, err := openMySQL(cfg, 1)
	return execOn(ctx, db, err, statement)
}

func execPostgres(ctx context.Context, dsn, statement string) error {
	db, err := openPostgres(dsn, 1)
	return execOn(ctx, db, err, statement)
}

func execOn(ctx context.Context, db *sql.DB, err error, statement string) error {
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, statement)
	return errors.Join(err, db.Close())
}

// Warm opens conns connections of a pool, so that a run does not begin with dialling.
func Warm(ctx context.Context, db *sql.DB, conns int) error {
	var open []*sql.Conn
	var err error
	for range conns {
		var c *sql.Conn
		if c, err = db.Conn(ctx); err != nil {
			break
		}
		open = append(open, c)
	}
	for _, c := range open {
		err = errors.Join(err, c.Close())
	}
	return err
}

// Cool closes the idle connections of a pool that rests: servers allow only so many.
func Cool(db *sql.DB, conns int) {
	db.SetMaxIdleConns(-1)
	db.SetMaxIdleConns(conns)
}
