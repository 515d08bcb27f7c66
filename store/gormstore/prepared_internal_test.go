package gormstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"
)

// stale is a server whose connections break at their second statement, before a byte of it
// is sent.
type stale struct{ dialled, done int }

func (s *stale) Driver() driver.Driver { return nil }

func (s *stale) Connect(context.Context) (driver.Conn, error) {
	s.dialled++
	return &staleConn{server: s}, nil
}

type staleConn struct {
	driver.Conn
	server *stale
	used   bool
}

func (c *staleConn) Prepare(string) (driver.Stmt, error) { return staleStmt{c}, nil }
func (c *staleConn) Close() error                        { return nil }

type staleStmt struct{ conn *staleConn }

func (s staleStmt) Close() error                              { return nil }
func (s staleStmt) NumInput() int                             { return -1 }
func (s staleStmt) Query([]driver.Value) (driver.Rows, error) { return nil, driver.ErrSkip }

func (s staleStmt) Exec([]driver.Value) (driver.Result, error) {
	if s.conn.used {
		return nil, driver.ErrBadConn
	}
	s.conn.used = true
	s.conn.server.done++
	return driver.RowsAffected(1), nil
}

// A prepared statement whose connection turns out to be gone before anything was sent is
// run on another one; it is not an error of unknown effect.
func TestStalePreparedConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	server := &stale{}
	db := sql.OpenDB(server)
	t.Cleanup(func() { _ = db.Close() })
	s := &Store{own: true, db: db, d: dialectOf(dialectMySQL), opt: Options{MaxOpenConns: preparedConns}}
	t.Cleanup(s.prepared.close)
	for n := 1; n <= 4; n++ {
		ok, err := s.execPrepared(t.Context(), 1, "INSERT", nil)
		if !ok || err != nil || server.done != n || server.dialled != n {
			t.Fatalf("statement %d: %t, %v; %d were run on %d connections", n, ok, err, server.done, server.dialled)
		}
	}
}
