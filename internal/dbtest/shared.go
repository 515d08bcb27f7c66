package dbtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // Registers "pgx".
)

// Environment variables that point to other shared servers. The databases' users
// must be allowed to create and drop databases.
const (
	// EnvMySQL is a DSN of go-sql-driver/mysql.
	EnvMySQL = "TRANSMSG_TEST_MYSQL_DSN"
	// EnvPostgres is a postgres:// URL.
	EnvPostgres = "TRANSMSG_TEST_POSTGRES_DSN"
	// EnvRedis is host:port; Valkey is as good.
	EnvRedis = "TRANSMSG_TEST_REDIS_ADDR"
)

// Environment variables that name the root folders from which private servers run;
// empty is this machine itself. See [proc.Root].
const (
	// EnvMySQLRoot has mariadbd, or mysqld.
	EnvMySQLRoot = "TRANSMSG_TEST_MYSQL_ROOT"
	// EnvPostgresRoot has PostgreSQL.
	EnvPostgresRoot = "TRANSMSG_TEST_POSTGRES_ROOT"
	// EnvRedisRoot has redis-server, or valkey-server.
	EnvRedisRoot = "TRANSMSG_TEST_REDIS_ROOT"
)

const (
	defaultMySQL    = "root@tcp(127.0.0.1:3306)/"
	defaultPostgres = "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable"
	defaultRedis    = "127.0.0.1:6379"
	adminTimeout    = 30 * time.Second
	nextStep        = "next step: run scripts/services.sh, or set "
)

// MySQL returns the DSN (go-sql-driver/mysql) of a fresh schema on the shared
// MySQL or MariaDB. It is dropped when the test ends.
func MySQL(tb TB) string { tb.Helper(); return fresh(tb, NewMySQL) }

// Postgres returns the URL of a fresh database on the shared PostgreSQL. It is
// dropped when the test ends.
func Postgres(tb TB) string { tb.Helper(); return fresh(tb, NewPostgres) }

// Redis returns the address of the shared Redis, whose keys others use too: give
// yours names that nobody else has.
func Redis() string { return envOr(EnvRedis, defaultRedis) }

// SQLite returns the path of a database file that does not exist yet, in a
// folder that is removed when the test ends.
func SQLite(tb TB) string { return filepath.Join(tb.TempDir(), "test.db") }

// NewMySQL is MySQL for programs: the caller calls drop, which also ends the
// connections that still use the schema.
func NewMySQL(ctx context.Context) (dsn string, drop func() error, err error) {
	raw := envOr(EnvMySQL, defaultMySQL)
	config, err := mysql.ParseDSN(raw)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", EnvMySQL, errBadDSN) // The value may hold a password.
	}
	admin := config.Clone()
	admin.DBName = ""
	name := freshName()
	if err := execSQL(ctx, "mysql", admin.FormatDSN(), "CREATE DATABASE "+name); err != nil {
		return "", nil, fmt.Errorf("create schema on the MySQL server at %s: %w; %s%s",
			config.Addr, err, nextStep, EnvMySQL)
	}
	config.DBName = name
	return config.FormatDSN(), func() error { return dropMySQL(admin.FormatDSN(), name) }, nil
}

// NewPostgres is Postgres for programs: the caller calls drop, which also ends
// the connections that still use the database.
func NewPostgres(ctx context.Context) (dsn string, drop func() error, err error) {
	admin := envOr(EnvPostgres, defaultPostgres)
	u, err := url.Parse(admin)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		return "", nil, fmt.Errorf("%s: %w", EnvPostgres, errBadDSN) // The value may hold a password.
	}
	name := freshName()
	if err := execSQL(ctx, "pgx", admin, "CREATE DATABASE "+name); err != nil {
		return "", nil, fmt.Errorf("create database on the PostgreSQL server at %s: %w; %s%s",
			u.Host, err, nextStep, EnvPostgres)
	}
	u.Path = "/" + name
	drop = func() error {
		// Detached: the test's own context has ended by now.
		return execSQL(context.Background(), "pgx", admin, "DROP DATABASE "+name+" WITH (FORCE)")
	}
	return u.String(), drop, nil
}

// NewSQLite is SQLite for programs: drop removes the file and its folder.
func NewSQLite(context.Context) (path string, drop func() error, err error) {
	dir, err := os.MkdirTemp("", "transmsg-sqlite-")
	if err != nil {
		return "", nil, fmt.Errorf("sqlite file: %w", err)
	}
	return filepath.Join(dir, "test.db"), func() error { return os.RemoveAll(dir) }, nil
}

var errBadDSN = errors.New("not a valid DSN")

// freshName is a name that needs no quotes in any dialect.
func freshName() string { return "transmsg_test_" + strings.ToLower(rand.Text()[:16]) }

func envOr(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

// dropMySQL ends the schema's connections first: an open transaction would hold
// the metadata lock that DROP DATABASE waits for.
func dropMySQL(admin, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	return withDB("mysql", admin, func(db *sql.DB) error {
		_, err := killMySQL(ctx, db, "db = ?", name)
		if err != nil {
			return err
		}
		if _, err := db.ExecContext(ctx, "DROP DATABASE "+name); err != nil {
			return fmt.Errorf("drop schema: %w", err)
		}
		return nil
	})
}

// killMySQL ends the connections for which the condition holds and says how
// many there were.
func killMySQL(ctx context.Context, db *sql.DB, condition string, arg any) (int, error) {
	list, err := processList(ctx, db)
	if err != nil {
		return 0, fmt.Errorf("list connections: %w", err)
	}
	ids, err := queryIDs(ctx, db, "SELECT id FROM "+list+" WHERE id <> CONNECTION_ID() AND "+condition, arg)
	if err != nil {
		return 0, fmt.Errorf("list connections: %w", err)
	}
	const noSuchThread = 1094 // It ended by itself meanwhile.
	for _, id := range ids {
		_, err := db.ExecContext(ctx, fmt.Sprintf("KILL %d", id))
		var myErr *mysql.MySQLError
		if errors.As(err, &myErr) && myErr.Number == noSuchThread {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("kill connection: %w", err)
		}
	}
	return len(ids), nil
}

// processList is the table of connections. MySQL's own in information_schema cannot be read
// while a statement with binary data runs (3854), and MariaDB's is there alone.
func processList(ctx context.Context, db *sql.DB) (string, error) {
	var version string
	err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version)
	if err != nil || strings.Contains(version, "MariaDB") {
		return "information_schema.processlist", err
	}
	return "performance_schema.processlist", nil
}

func queryIDs(ctx context.Context, db *sql.DB, query string, args ...any) ([]int64, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// withDB opens a handle for one piece of work, so that nothing of ours is left
// to a test's leak check.
func withDB(driver, dsn string, f func(*sql.DB) error) error {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	return errors.Join(f(db), db.Close())
}

func execSQL(ctx context.Context, driver, dsn string, statements ...string) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	return withDB(driver, dsn, func(db *sql.DB) error {
		for _, s := range statements {
			if _, err := db.ExecContext(ctx, s); err != nil {
				return err
			}
		}
		return nil
	})
}
