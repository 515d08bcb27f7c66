package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// errShared: the pooler gives the server's session to another client after each transaction.
var errShared = errors.New("a pooler such as PgBouncer hands the server's sessions to other clients between " +
	"transactions (pool_mode = transaction): what the store sets for its session, and prepares in it, would be " +
	"theirs; use pool_mode = session, or connect to the server itself. The pool of your own transactions may " +
	"stay as it is")

// lookRounds is how often two connections ask for their sessions: other clients may have had the one
// that both would get.
const lookRounds = 4

// ownSessions is ownSession for a caller's pool. A driver that wraps pgx's is not looked into.
func ownSessions(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(raw any) error {
		if c, ok := raw.(*stdlib.Conn); ok {
			return ownSession(ctx, c.Conn())
		}
		return nil
	})
}

// ownSession refuses a pooler that does not keep one session for one connection. Without a pooler this
// costs one question; behind one, a second connection is there for the time of the check. It comes
// before the first statement that would change the session.
func ownSession(ctx context.Context, c *pgx.Conn) (err error) {
	first, err := backend(ctx, c)
	if err != nil || first == c.PgConn().PID() {
		return err // the server itself: a pooler gives its clients keys of its own
	}
	other, err := pgx.ConnectConfig(ctx, c.Config())
	if err != nil {
		return fmt.Errorf("a second connection through the pooler: %w", err)
	}
	defer func() { err = errors.Join(err, other.Close(ctx)) }()
	for range lookRounds {
		theirs, err := backend(ctx, other)
		if err != nil {
			return err
		}
		mine, err := backend(ctx, c)
		if err != nil {
			return err
		}
		if mine != first || theirs == mine {
			return errShared
		}
	}
	return nil
}

// backend is the process of the server that a connection leads to. In a simple query nothing is prepared.
func backend(ctx context.Context, c *pgx.Conn) (pid uint32, err error) {
	err = c.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid)
	return pid, err
}
