package gormstore

import (
	"context"
	"fmt"
	"time"

	"github.com/transmsg/transmsg/model"
)

// Extend gives rows whose send is out a new lease from now on, by the database's clock, and
// returns how many. It is for a sender that the broker keeps waiting. Only rows that are READY
// in that epoch and version get one: the others were claimed, settled or edited since, or are
// gone, and rows that somebody else holds locked are passed over. The version stays, so that
// the outcome of the send can still be written. lease is at least 1 ms. Above 500 rows several
// transactions are made, and an error means that later ones were not.
func (s *Store) Extend(ctx context.Context, held []model.Held, lease time.Duration) (int, error) {
	if lease < time.Millisecond {
		return 0, fmt.Errorf("gormstore: extend: lease %s must be positive", lease)
	}
	total := 0
	for rest := held; len(rest) > 0; {
		part := rest[:min(len(rest), maxRows)]
		extended := 0
		err := s.inTx(ctx, "extend", func(tx dbTx) (err error) {
			extended, err = s.extendTx(ctx, tx, part, lease)
			return err
		})
		if err != nil {
			return total, err
		}
		total, rest = total+extended, rest[len(part):]
	}
	return total, nil
}

func (s *Store) extendTx(ctx context.Context, tx dbTx, held []model.Held, lease time.Duration) (int, error) {
	sent := make([]model.Settlement, len(held))
	for i, h := range held {
		sent[i] = model.Settlement{ID: h.ID, Epoch: h.Epoch, Version: h.Version}
	}
	have, err := s.lockFences(ctx, tx, sent)
	if err != nil {
		return 0, err
	}
	var ours []string
	for _, h := range held {
		if f := have[h.ID]; f != nil && !f.busy && f.epoch == h.Epoch && f.version == h.Version {
			ours = append(ours, h.ID)
		}
	}
	if len(ours) == 0 {
		return 0, nil
	}
	cond, args := s.d.in(sortedIDs(ours), delayMS(lease))
	return affected(tx.ExecContext(ctx, s.d.bind("UPDATE "+s.sql.table+" SET next_attempt_at = "+s.d.now+
		"+? WHERE id "+cond+" AND status = 'READY'"), args...))
}
