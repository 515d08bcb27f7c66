package migrations

import (
	"context"
	"database/sql"
	"errors"
)

// turn lets one process at a time migrate on MySQL, where a migration is no transaction.
// It is a named lock of the server, held by the connection that migrates and gone with it.
type turn struct {
	table string // the version table: other databases and prefixes take turns of their own
}

// turnName is the lock's name; those of MySQL have 64 characters at most. MySQL 9.6 dropped MD5.
const turnName = "CONCAT('transmsg migrate ', LEFT(SHA2(CONCAT(DATABASE(), ' ', ?), 256), 32))"

// SessionLock waits for the lock until ctx ends. It implements goose's lock.SessionLocker.
func (l turn) SessionLock(ctx context.Context, conn *sql.Conn) error {
	for {
		var got sql.NullInt64
		if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK("+turnName+", 1)", l.table).Scan(&got); err != nil {
			return err
		}
		if got.Int64 == 1 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return errors.Join(errors.New("another process migrates this database"), err)
		}
	}
}

// SessionUnlock implements goose's lock.SessionLocker.
func (l turn) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "DO RELEASE_LOCK("+turnName+")", l.table)
	return err
}
