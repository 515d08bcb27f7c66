package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/transmsg/transmsg/internal/proc"
)

// PostgresServer is a private PostgreSQL. It starts in about a second.
type PostgresServer struct {
	*Instance
	bin        string
	credential *syscall.Credential
}

// StartPostgres starts a private PostgreSQL and ends it, files and all, when the
// test ends.
func StartPostgres(tb TB) *PostgresServer {
	tb.Helper()
	return start(tb, func(ctx context.Context) (*PostgresServer, error) { return NewPostgresServer(ctx, "") })
}

// NewPostgresServer is StartPostgres for programs and TestMain. Its files are in
// a new folder under dir, "" for the system's temporary folder; when we are root
// the user postgres must be able to reach it. The caller calls Close.
func NewPostgresServer(ctx context.Context, dir string) (*PostgresServer, error) {
	i, err := newInstance(dir, "postgres", EnvPostgresRoot)
	if err != nil {
		return nil, err
	}
	s := &PostgresServer{Instance: i}
	i.spec, i.ready = s.spec, s.ping
	if err := s.setup(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("private postgres: %w", err), s.Close())
	}
	return s, nil
}

func (s *PostgresServer) setup(ctx context.Context) error {
	found, err := s.root.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || found == "" {
		return errors.New("no initdb under /usr/lib/postgresql/*/bin; next step: apt-get install postgresql")
	}
	s.bin = filepath.Dir(found)
	if os.Geteuid() == 0 { // PostgreSQL refuses to run as root.
		if s.credential, err = s.root.User("postgres"); err != nil {
			return err
		}
	}
	if c := s.credential; c != nil {
		if err := os.Chown(s.dir, int(c.Uid), int(c.Gid)); err != nil {
			return err
		}
	}
	cmd := s.root.Command(ctx, filepath.Join(s.bin, "initdb"), "-D", s.path("data"), "-A", "trust",
		"-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C")
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: string(s.root), Credential: s.credential}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return s.boot(ctx)
}

func (s *PostgresServer) spec() proc.Spec {
	return proc.Spec{
		Path: filepath.Join(s.bin, "postgres"),
		Args: []string{
			"-D", s.path("data"), "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories=" + s.dir,
			// Under our folder instead of /dev/shm, where kill -9 would leave it.
			"-c", "dynamic_shared_memory_type=mmap",
		},
		Dir: s.dir, Output: s.path("postgres.log"), Credential: s.credential, Root: s.root,
		// Fast shutdown; SIGTERM would wait for every client to leave.
		StopSignal: syscall.SIGINT,
	}
}

func (s *PostgresServer) ping(ctx context.Context) error {
	return withDB("pgx", s.DSN("postgres"), func(db *sql.DB) error { return db.PingContext(ctx) })
}

// DSN returns the URL of a database for the superuser.
func (s *PostgresServer) DSN(database string) string {
	return "postgres://postgres@" + s.Addr() + "/" + database + "?sslmode=disable"
}

// NewDatabase creates a database with a fresh name and returns its name.
func (s *PostgresServer) NewDatabase(ctx context.Context) (string, error) {
	name := freshName()
	return name, s.Exec(ctx, "CREATE DATABASE "+name)
}

// Exec runs statements as the superuser, each by itself.
func (s *PostgresServer) Exec(ctx context.Context, statements ...string) error {
	if err := execSQL(ctx, "pgx", s.DSN("postgres"), statements...); err != nil {
		return fmt.Errorf("private postgres: %w", err)
	}
	return nil
}
