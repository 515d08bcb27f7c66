package bench

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

	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
)

// The kinds of database.
const (
	kindMySQL    = "mysql"
	kindPostgres = "postgres"
	kindSQLite   = "sqlite"

	// storeForms are the accepted forms of Config.Store.
	storeForms = "mysql, postgres or sqlite (the local server or a temporary file), or a DSN: " +
		"mysql://user:password@host:3306/, postgres://user:password@host:5432/, sqlite:PATH"
	cleanupTimeout = time.Minute
)

// server is where schemas are made.
type server struct {
	kind  string
	mysql *mysql.Config
	pg    *url.URL
	path  string // SQLite: files are made beside this path; empty is a temporary folder
}

// parseServer reads Config.Store. Errors never quote it: it may hold a password.
func parseServer(store string) (*server, error) {
	switch store {
	case "", kindMySQL:
		store = "mysql://root@127.0.0.1:3306/"
	case kindPostgres:
		store = "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable"
	case kindSQLite:
		return &server{kind: kindSQLite}, nil
	}
	scheme, rest, _ := strings.Cut(store, ":")
	switch {
	case scheme == "mysql" || scheme == "mariadb":
		return mysqlServer(store)
	case scheme == "postgres" || scheme == "postgresql":
		u, err := url.Parse(store)
		if err != nil || u.Host == "" {
			return nil, errors.New("store is not a valid URL: percent-encode special characters in user and password")
		}
		return &server{kind: kindPostgres, pg: u}, nil
	case scheme == "sqlite" && rest != "":
		return &server{kind: kindSQLite, path: strings.TrimPrefix(rest, "//")}, nil
	case strings.Contains(store, "@") && !strings.Contains(store, "://"):
		cfg, err := mysql.ParseDSN(store)
		if err != nil {
			return nil, errors.New("store is not of the form user:password@tcp(host:port)/")
		}
		return &server{kind: kindMySQL, mysql: cfg}, nil
	}
	return nil, errors.New("store has no known form; want " + storeForms)
}

func mysqlServer(store string) (*server, error) {
	u, err := url.Parse(store)
	if err != nil || u.Host == "" {
		return nil, errors.New("store is not a valid URL: percent-encode special characters in user and password")
	}
	cfg, err := mysql.ParseDSN("/?" + u.RawQuery)
	if err != nil {
		return nil, errors.New("store has parameters that the driver refuses")
	}
	cfg.User, cfg.Net, cfg.Addr = u.User.Username(), "tcp", u.Host
	cfg.Passwd, _ = u.User.Password()
	if u.Port() == "" {
		cfg.Addr += ":3306"
	}
	return &server{kind: kindMySQL, mysql: cfg}, nil
}

// String names the server without secrets.
func (s *server) String() string {
	switch s.kind {
	case kindMySQL:
		return "mysql " + s.mysql.Addr
	case kindPostgres:
		return "postgres " + s.pg.Host
	}
	if s.path == "" {
		return "sqlite in a temporary folder"
	}
	return "sqlite beside " + s.path
}

// Schema is a database of the run's own with the product's tables in it.
type Schema struct {
	// Kind is mysql, postgres or sqlite.
	Kind string
	// DSN is what gormstore.Open takes.
	DSN string
	// Pool is a pool like the store's own: as many connections, READ COMMITTED, one round
	// trip a statement. The raw loops and the naive contestant run on it.
	Pool *sql.DB

	rest  time.Duration // the longest Rest
	fresh func(conns int) (*sql.DB, error)
	drop  func(context.Context) error
}

// newSchema creates a database with a random name and migrates it.
func (s *server) newSchema(ctx context.Context) (*Schema, error) {
	name := "transmsg_bench_" + strings.ToLower(rand.Text()[:16])
	var sc *Schema
	var err error
	switch s.kind {
	case kindMySQL:
		sc, err = s.newMySQL(ctx, name)
	case kindPostgres:
		sc, err = s.newPostgres(ctx, name)
	default:
		sc, err = s.newSQLite(name)
	}
	if err != nil {
		return nil, fmt.Errorf("create a schema on %s: %w", s, err)
	}
	if sc.Pool, err = sc.fresh(gormstore.DefaultMaxOpenConns); err == nil {
		err = sc.migrate(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create a schema on %s: %w", s, err), sc.close(ctx))
	}
	return sc, nil
}

func (sc *Schema) migrate(ctx context.Context) error {
	store, err := anystore.Open(ctx, sc.DSN, gormstore.Options{SkipSchemaCheck: true})
	if err != nil {
		return err
	}
	_, err = migrations.Up(ctx, store)
	return errors.Join(err, store.Close())
}

// Fresh opens another pool like Pool with so many connections. SQLite has one always.
// The caller closes it.
func (sc *Schema) Fresh(conns int) (*sql.DB, error) { return sc.fresh(conns) }

// close drops the database, also after ctx has ended.
func (sc *Schema) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	var err error
	if sc.Pool != nil {
		err = sc.Pool.Close()
	}
	return errors.Join(err, sc.drop(ctx))
}

func (s *server) newMySQL(ctx context.Context, name string) (*Schema, error) {
	admin := poolConfig(s.mysql, "")
	if err := execAs(ctx, admin, "CREATE DATABASE "+name); err != nil {
		return nil, err
	}
	cfg := poolConfig(s.mysql, name)
	return &Schema{
		Kind: kindMySQL, DSN: cfg.FormatDSN(),
		fresh: func(conns int) (*sql.DB, error) { return openMySQL(cfg, conns) },
		drop:  func(ctx context.Context) error { return execAs(ctx, admin, "DROP DATABASE "+name) },
	}, nil
}

func (s *server) newPostgres(ctx context.Context, name string) (*Schema, error) {
	admin := *s.pg
	if strings.Trim(admin.Path, "/") == "" {
		admin.Path = "/postgres"
	}
	if err := execPostgres(ctx, admin.String(), "CREATE DATABASE "+name); err != nil {
		return nil, err
	}
	own := admin
	own.Path = "/" + name
	return &Schema{
		Kind: kindPostgres, DSN: own.String(),
		fresh: func(conns int) (*sql.DB, error) { return openPostgres(own.String(), conns) },
		drop: func(ctx context.Context) error {
			return execPostgres(ctx, admin.String(), "DROP DATABASE "+name+" WITH (FORCE)")
		},
	}, nil
}

func (s *server) newSQLite(name string) (*Schema, error) {
	parent := ""
	if s.path != "" {
		parent = filepath.Dir(s.path)
	}
	dir, err := os.MkdirTemp(parent, name+"-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "bench.db")
	return &Schema{
		Kind: kindSQLite, DSN: "sqlite:" + path,
		fresh: func(int) (*sql.DB, error) { return openSQLite(path) },
		drop:  func(context.Context) error { return os.RemoveAll(dir) },
	}, nil
}
