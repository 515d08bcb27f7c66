package gormstore

import (
	"context"
	"fmt"
	"time"

	"github.com/transmsg/transmsg/model"
)

// Renew gives the instance a new lease on rows that nobody has claimed since they were
// stored: READY and still at version 0. They get version 1, and their ids are returned,
// sorted; the others belong to somebody else, who may hold them locked, or are gone. For
// a sender that is late.
func (s *Store) Renew(
	ctx context.Context, instance string, keys []model.RowKey, lease time.Duration,
) ([]string, error) {
	if lease < time.Millisecond {
		return nil, fmt.Errorf("gormstore: renew: lease %s must be positive", lease)
	}
	var out []string
	_, err := inParts(keys, func(part []model.RowKey) (int, error) {
		var renewed []string
		err := s.inTx(ctx, "renew", func(tx dbTx) (err error) {
			renewed, err = s.renewTx(ctx, tx, instance, part, lease)
			return err
		})
		if err == nil {
			out = append(out, renewed...)
		}
		return len(renewed), err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Store) renewTx(
	ctx context.Context, tx dbTx, instance string, keys []model.RowKey, lease time.Duration,
) ([]string, error) {
	found, err := s.selectKeys(ctx, tx, keys, " AND status = 'READY' AND version = 0 ORDER BY id"+s.d.skipLocked)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	cond, args := s.d.in(found, delayMS(lease), instance)
	_, err = tx.ExecContext(ctx, s.d.bind("UPDATE "+s.sql.table+" SET next_attempt_at = "+s.d.now+"+?, version = 1, "+
		"claimed_by = ?, updated_at = "+s.d.now+" WHERE id "+cond+" AND status = 'READY' AND version = 0"), args...)
	return found, err
}
