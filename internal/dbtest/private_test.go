package dbtest_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"github.com/transmsg/transmsg/internal/dbtest"
)

// until polls for a named state; the test ends when it does not come.
func until(t *testing.T, state string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not reached: %s", state)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func refused(t *testing.T, addr string) {
	t.Helper()
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Errorf("%s still listens", addr)
	}
}

type restartable interface {
	Start(context.Context) error
	Stop() error
	Kill() error
	Addr() string
}

// restarts ends a server both ways; rows says what is left each time.
func restarts(t *testing.T, s restartable, db *sql.DB) {
	t.Helper()
	exec(t, db, "CREATE TABLE kept (id INT)")
	for i, end := range []func() error{s.Stop, s.Kill} {
		exec(t, db, "INSERT INTO kept VALUES (1)")
		if err := errors.Join(end(), end()); err != nil {
			t.Fatal(err)
		}
		refused(t, s.Addr())
		if err := db.PingContext(t.Context()); err == nil {
			t.Error("ping of a dead server succeeded")
		}
		if err := errors.Join(s.Start(t.Context()), s.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM kept").Scan(&n); err != nil || n != i+1 {
			t.Errorf("rows after restart %d = %d, %v", i, n, err)
		}
	}
}

func TestMariaDB(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "m")
	if err != nil {
		t.Fatal(err)
	}
	s, err := dbtest.NewMariaDB(t.Context(), dir, dbtest.MariaDBOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		refused(t, s.Addr())
		// Fails when the server left something in it.
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	}()
	schema, err := s.NewSchema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db := open(t, "mysql", s.DSN(schema))
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY)")
	t.Run("read only", func(t *testing.T) { mariaReadOnly(t, s, db) })
	t.Run("lock", func(t *testing.T) { mariaLock(t, s, schema, db) })
	t.Run("kill connections", func(t *testing.T) { mariaKillConnections(t, s, db) })
	t.Run("restarts", func(t *testing.T) { restarts(t, s, db) })
}

func mariaReadOnly(t *testing.T, s *dbtest.MariaDBServer, db *sql.DB) {
	if err := s.ReadOnly(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	_, err := db.ExecContext(t.Context(), "INSERT INTO t VALUES (1)")
	var myErr *mysql.MySQLError
	if !errors.As(err, &myErr) || myErr.Number != 1290 {
		t.Errorf("insert = %v, want 1290", err)
	}
	if err := s.ReadOnly(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "INSERT INTO t VALUES (1)")
}

func mariaLock(t *testing.T, s *dbtest.MariaDBServer, schema string, db *sql.DB) {
	unlock, err := s.LockTable(t.Context(), schema, "t")
	if err != nil {
		t.Fatal(err)
	}
	inserted := make(chan error, 1)
	go func() {
		_, err := db.Exec("INSERT INTO t VALUES (2)")
		inserted <- err
	}()
	until(t, "the insert waits for the lock", func() bool {
		n, err := s.LockWaits(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n == 1
	})
	select {
	case err := <-inserted:
		t.Errorf("the insert ended under the lock: %v", err)
	default:
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if err := <-inserted; err != nil {
		t.Errorf("insert after unlock = %v", err)
	}
}

func mariaKillConnections(t *testing.T, s *dbtest.MariaDBServer, db *sql.DB) {
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := s.KillConnections(t.Context()); n < 1 || err != nil {
		t.Errorf("KillConnections = %d, %v; want at least 1", n, err)
	}
	until(t, "the connection is dead", func() bool {
		_, err := conn.ExecContext(t.Context(), "DO 1")
		return err != nil
	})
}

func TestStartMariaDBWithFlags(t *testing.T) {
	t.Parallel()
	s := dbtest.StartMariaDB(t, dbtest.MariaDBOptions{Flags: []string{"--sql-mode="}})
	var mode string
	if err := open(t, "mysql", s.DSN("")).QueryRow("SELECT @@GLOBAL.sql_mode").Scan(&mode); err != nil || mode != "" {
		t.Errorf("sql_mode = %q, %v; want empty", mode, err)
	}
}

func TestPostgresServer(t *testing.T) {
	t.Parallel()
	s := dbtest.StartPostgres(t)
	name, err := s.NewDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	restarts(t, s, open(t, "pgx", s.DSN(name)))
	if err := errors.Join(s.Kill(), s.Close(), s.Close()); err != nil {
		t.Errorf("close of a killed server: %v", err)
	}
}

func TestRedisServer(t *testing.T) {
	t.Parallel()
	s := dbtest.StartRedis(t)
	c := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer c.Close()
	for _, lose := range []func() error{
		func() error { return s.FlushAll(t.Context()) },
		func() error { return errors.Join(s.Stop(), s.Start(t.Context())) },
		func() error { return errors.Join(s.Kill(), s.Start(t.Context())) },
	} {
		if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if err := lose(); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), "k").Err(); !errors.Is(err, redis.Nil) {
			t.Errorf("get = %v, want the key gone", err)
		}
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	refused(t, s.Addr())
}
