package gormstore

import (
	"context"
	"fmt"
	"time"
)

// Renew gives the owner a new lease on rows that nobody has claimed since they were
// stored: READY and still at version 0. They get version 1, and their ids are returned,
// sorted; the others belong to somebody else, who may hold them locked, or are gone. For
// a sender that is late.
func (s *Store) Renew(ctx context.Context, owner string, ids []string, lease time.Duration) ([]string, error) {
	if lease < time.Millisecond {
		return nil, fmt.Errorf("gormstore: renew: lease %s must be positive", lease)
	}
	var out []string
	for sorted := sortedIDs(ids); len(sorted) > 0; {
		n := min(len(sorted), maxRows)
		var renewed []string
		err := s.inTx(ctx, "renew", func(tx dbTx) (err error) {
			renewed, err = s.renewTx(ctx, tx, owner, sorted[:n], lease)
			return err
		})
		if err != nil {
			return nil, err
		}
		out, sorted = append(out, renewed...), sorted[n:]
	}
	return out, nil
}

func (s *Store) renewTx(
	ctx context.Context, tx dbTx, owner string, ids []string, lease time.Duration,
) ([]string, error) {
	cond, args := s.d.in(ids)
	rows, err := tx.QueryContext(ctx, s.d.bind("SELECT id FROM "+s.sql.table+s.d.forceKey()+" WHERE id "+cond+
		" AND status = 'READY' AND version = 0 ORDER BY id"+s.d.skipLocked), args...)
	found, err := collect(rows, err, func(r scanner, id *string) error { return r.Scan(id) })
	if err != nil || len(found) == 0 {
		return nil, err
	}
	cond, args = s.d.in(found, delayMS(lease), owner)
	_, err = tx.ExecContext(ctx, s.d.bind("UPDATE "+s.sql.table+" SET next_attempt_at = "+s.d.now+"+?, version = 1, "+
		"claimed_by = ?, updated_at = "+s.d.now+" WHERE id "+cond+" AND status = 'READY' AND version = 0"), args...)
	return found, err
}
