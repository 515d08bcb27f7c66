package gormstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"time"
)

// connMaxLifetime ends connections to a server that was demoted: the name leads to another
// one, but an open connection never does.
const connMaxLifetime = 5 * time.Minute

// mysqlSession sets the state of every connection of the own pool: READ COMMITTED, in the
// one syntax that MySQL and MariaDB share whatever they call the variable; autocommit,
// without which a statement by itself would never be committed; strictness, since a value
// that is cut is another message; the columns' character set, whatever the DSN says; and a
// short wait for locks. One that is not free in a second belongs to somebody who thinks or
// sleeps: then those who share the statement part from the one row that is locked.
func mysqlSession() []string {
	return []string{
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
		"SET NAMES utf8mb4, SESSION autocommit = 1, SESSION innodb_lock_wait_timeout = 1, " +
			"SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_TRANS_TABLES')",
	}
}

// postgresSession is the same for PostgreSQL.
func postgresSession() []string {
	return []string{
		"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED", "SET lock_timeout = '1s'",
	}
}

// session prepares every new connection.
type session struct {
	driver.Connector
	statements []string
	// within bounds a dial with its handshake and the statements: the pool makes some
	// connections without anybody's context.
	within time.Duration
}

// Connect implements driver.Connector.
func (s session) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.within)
	defer cancel()
	conn, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	x, ok := conn.(driver.ExecerContext)
	if !ok {
		return nil, errors.Join(errors.New("the driver cannot execute statements"), conn.Close())
	}
	for _, statement := range s.statements {
		if _, err := x.ExecContext(ctx, statement, nil); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}
