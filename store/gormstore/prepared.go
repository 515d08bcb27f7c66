package gormstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	// preparedConns is the least MaxOpenConns at which a connection is kept for inserts.
	preparedConns = 3
	// maxPrepared bounds the statements that the server keeps for one connection.
	maxPrepared = 48
)

// batchRows are the sizes of a batch of single rows: few enough to have a prepared
// statement of each, close enough that little is left for the next batch.
var batchRows = []int{
	1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, maxRows,
}

// wholeBatch is the largest of batchRows that is at most n, n at least 1.
func wholeBatch(n int) int {
	i, exact := slices.BinarySearch(batchRows, n)
	if !exact {
		i--
	}
	return batchRows[i]
}

// prepared is a MySQL connection of the own pool that the shared INSERTs go through, with
// a prepared statement for one row and for each number of rows that came twice. An INSERT
// of 128 rows of 1 KiB takes the server 20 us a row so, and 33 us as a text that it has to
// parse.
type prepared struct {
	mu    sync.Mutex // held during a statement
	conn  *sql.Conn
	until time.Time         // when the connection is replaced, as the pool's are
	stmts map[int]*sql.Stmt // by rows; nil: seen once
	off   bool              // the server refused to prepare one: texts only on this connection
}

// execPrepared runs one INSERT of so many rows that must not run twice, as execOnce does. ok
// is false where somebody else uses the connection: nothing was sent then.
func (s *Store) execPrepared(ctx context.Context, rows int, query string, args []any) (ok bool, err error) {
	p := &s.prepared
	if !s.own || s.d.name != dialectMySQL || s.opt.MaxOpenConns < preparedConns || !p.mu.TryLock() {
		return false, nil
	}
	defer p.mu.Unlock()
	for try := 0; ; try++ {
		err := p.take(ctx, s.db)
		if err != nil {
			return true, notSentError{err}
		}
		if err = p.exec(ctx, s.d, rows, query, args); err == nil {
			return true, nil
		}
		if c := s.d.classify(err); c != classDuplicate && c != classData && c != classBusy && c != classRetry ||
			s.d.needsReprepare(err) {
			p.drop()
		}
		if !errors.Is(err, driver.ErrBadConn) || try > s.opt.MaxOpenConns {
			return true, err
		}
	}
}

// take has a connection that is alive as far as can be seen without asking: a pool looks
// whether the server has closed a connection before it hands it out.
func (p *prepared) take(ctx context.Context, db *sql.DB) error {
	if p.conn != nil && time.Now().Before(p.until) {
		err := p.conn.Raw(func(c any) error {
			if r, ok := c.(driver.SessionResetter); ok {
				return r.ResetSession(ctx)
			}
			return nil
		})
		if err == nil {
			return nil
		}
	}
	p.drop()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	p.conn, p.until, p.stmts, p.off = conn, time.Now().Add(connMaxLifetime), map[int]*sql.Stmt{}, false
	return nil
}

func (p *prepared) exec(ctx context.Context, d *dialect, rows int, query string, args []any) error {
	stmt, err := p.statement(ctx, d, rows, query) //nolint:sqlclosecheck // drop ends it with its connection
	if err != nil {
		return err
	}
	if stmt == nil {
		_, err = p.conn.ExecContext(ctx, query, args...)
		return err
	}
	// A statement whose driver says that nothing was sent is tried again by database/sql, which
	// then finds its connection closed and says only that.
	if _, err = stmt.ExecContext(ctx, args...); errors.Is(err, sql.ErrConnDone) {
		return driver.ErrBadConn
	}
	return err
}

// statement returns the prepared statement of so many rows, or nil for one that is not
// worth it yet.
func (p *prepared) statement(ctx context.Context, d *dialect, rows int, query string) (*sql.Stmt, error) {
	stmt, seen := p.stmts[rows]
	if stmt != nil || p.off {
		return stmt, nil
	}
	if !seen && rows > 1 {
		if len(p.stmts) < maxPrepared {
			p.stmts[rows] = nil
		}
		return nil, nil
	}
	stmt, err := p.conn.PrepareContext(ctx, query)
	_, refused := d.reply(err)
	switch {
	case refused:
		p.off = true // it may still take the text
		return nil, nil
	case err != nil:
		return nil, notSentError{err}
	}
	p.stmts[rows] = stmt
	return stmt, nil
}

// drop ends the connection and its statements with it.
func (p *prepared) drop() {
	if p.conn == nil {
		return
	}
	_ = p.conn.Raw(func(any) error { return driver.ErrBadConn }) // closes it instead of handing it back
	_ = p.conn.Close()
	p.conn, p.stmts = nil, nil
}

func (p *prepared) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop()
}
