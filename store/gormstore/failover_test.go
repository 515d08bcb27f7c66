package gormstore_test

import (
	"context"
	"database/sql"
	"net"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	gormmysql "gorm.io/driver/mysql"

	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// TestT4_CallersPoolRecoversAfterAFailover: a server becomes read only, and its name leads to another
// one from now on. Each connection that the pool has would fail for as long as it lives.
func TestT4_CallersPoolRecoversAfterAFailover(t *testing.T) {
	t.Parallel()
	var name atomic.Value // the address that the name leads to
	old, next := dbtest.StartMariaDB(t, dbtest.MariaDBOptions{}), dbtest.StartMariaDB(t, dbtest.MariaDBOptions{})
	const schema = "transmsg_test_failover"
	for _, server := range []*dbtest.MariaDBServer{old, next} {
		if err := server.Exec(t.Context(), "CREATE DATABASE "+schema); err != nil {
			t.Fatal(err)
		}
		migrated(t, server.DSN(schema), gormstore.Options{})
	}
	name.Store(old.Addr())
	cfg, err := mysql.ParseDSN(old.DSN(schema))
	if err != nil {
		t.Fatal(err)
	}
	cfg.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, name.Load().(string))
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	pool := sql.OpenDB(connector)
	const conns = 8
	pool.SetMaxIdleConns(conns)
	s, err := onPool(t.Context(), callersPool(t, gormmysql.New(gormmysql.Config{Conn: pool})), gormstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	makeIdle(t, pool, conns)
	name.Store(next.Addr())
	if err := old.ReadOnly(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	failures := 0
	for range 3 * conns {
		if _, err := s.Insert(t.Context(), batch(1)); err != nil {
			failures++
		}
		if _, err := s.Delete(t.Context(), []model.RowKey{{ID: model.NewID()}}); err != nil {
			failures++
		}
	}
	if failures != 1 {
		t.Errorf("%d calls failed, want the one that found the server read only", failures)
	}
}

// makeIdle makes the pool have so many idle connections.
func makeIdle(t *testing.T, pool *sql.DB, n int) {
	t.Helper()
	var open []*sql.Conn
	for range n {
		conn, err := pool.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	for _, conn := range open {
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if idle := pool.Stats().Idle; idle != n {
		t.Fatalf("%d idle connections, want %d", idle, n)
	}
}
