package transmsgtest

import (
	"context"
	"database/sql/driver"
)

// connector opens connections that look at who uses them.
type connector struct {
	driver driver.Driver
	dsn    string
	misuse *misuse
}

// Driver implements [driver.Connector].
func (c connector) Driver() driver.Driver { return c.driver }

// Connect implements [driver.Connector].
func (c connector) Connect(context.Context) (driver.Conn, error) {
	opened, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return &conn{sqliteConn: opened.(sqliteConn), misuse: c.misuse}, nil
}

// sqliteConn is what a connection of the SQLite driver can do.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// conn is used by one goroutine at a time, as database/sql promises.
type conn struct {
	sqliteConn
	misuse *misuse
	inTx   bool
}

const (
	statement = "a statement on the database"
	useHandle = "the transaction's own handle (tx)"
)

// BeginTx refuses a second transaction of one goroutine.
func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if err := c.misuse.check("a second transaction", useHandle+", and out.Savepoint or gorm's tx.Transaction for "+
		"what may be undone alone"); err != nil {
		return nil, err
	}
	begun, err := c.sqliteConn.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	c.inTx = true
	return &tx{Tx: begun, conn: c, end: c.misuse.begin()}, nil
}

func (c *conn) past() error {
	if c.inTx {
		return nil
	}
	return c.misuse.check(statement, useHandle)
}

// ExecContext is refused past the open transaction.
func (c *conn) ExecContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.past(); err != nil {
		return nil, err
	}
	return c.sqliteConn.ExecContext(ctx, q, args)
}

// QueryContext is refused past the open transaction.
func (c *conn) QueryContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.past(); err != nil {
		return nil, err
	}
	return c.sqliteConn.QueryContext(ctx, q, args)
}

// PrepareContext is refused past the open transaction.
func (c *conn) PrepareContext(ctx context.Context, q string) (driver.Stmt, error) {
	if err := c.past(); err != nil {
		return nil, err
	}
	return c.sqliteConn.PrepareContext(ctx, q)
}

// tx tells when it has ended.
type tx struct {
	driver.Tx
	conn *conn
	end  func()
}

// Commit implements [driver.Tx].
func (t *tx) Commit() error {
	defer t.done()
	return t.Tx.Commit()
}

// Rollback implements [driver.Tx].
func (t *tx) Rollback() error {
	defer t.done()
	return t.Tx.Rollback()
}

func (t *tx) done() {
	t.conn.inTx = false
	t.end()
}
