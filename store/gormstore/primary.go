package gormstore

import (
	"context"
	"database/sql/driver"
)

// onPrimary runs read, which must lock what it reads, where no balancer's replica and no node that
// lags can answer: what is not there then, is not there. An error means that nobody knows.
//
// A write comes first, though it meets no row: whatever splits reads from writes sends it, and the
// transaction with it, to the primary, and a replica refuses it. The read is a locking one for
// those that look at each statement by itself. Not for SQLite, which has no replicas.
func (s *Store) onPrimary(ctx context.Context, read func(querier) error) error {
	if s.d.name == dialectMySQL {
		return s.onPrimaryMySQL(ctx, read)
	}
	tx, err := s.db.BeginTx(ctx, s.txOptions())
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	return s.writeAndRead(ctx, tx, read)
}

func (s *Store) writeAndRead(ctx context.Context, tx dbTx, read func(querier) error) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM "+s.sql.table+" WHERE id = ''"); err != nil {
		return err
	}
	return read(tx)
}

// caughtUp makes the node of a cluster wait until it has what the others committed before. It must
// come before the transaction. Servers without the variable are no node of such a cluster.
var caughtUp = []string{
	"SET SESSION wsrep_sync_wait = 15",                     // Galera
	"SET SESSION group_replication_consistency = 'BEFORE'", // MySQL's group replication
}

// onPrimaryMySQL closes the connection afterwards, since it has changed the session.
func (s *Store) onPrimaryMySQL(ctx context.Context, read func(querier) error) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer conn.Raw(func(any) error { return driver.ErrBadConn }) //nolint:errcheck // it always returns that
	const unknownVariable = 1193
	for _, statement := range caughtUp {
		_, err := conn.ExecContext(ctx, statement)
		if r, _ := s.d.reply(err); err != nil && r.Number != unknownVariable {
			return err
		}
	}
	for _, statement := range []string{"SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION"} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return s.writeAndRead(ctx, conn, read)
}
