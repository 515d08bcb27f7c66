package gormstore

import (
	"context"
	"fmt"
	"time"

	"github.com/transmsg/transmsg/model"
)

// ClaimLetters takes dead letters that wait and whose alert is owed, oldest first: they are the instance's to tell
// until the lease ends, and then due again, so that every alert is raised at least once. They come without content. It
// passes over what another call holds.
func (s *Store) ClaimLetters(ctx context.Context, c model.DeadClaim) (out []model.DeadLetter, err error) {
	switch {
	case c.MaxRows < 1 || c.MaxRows > maxClaimRows:
		return nil, fmt.Errorf("gormstore: claim dead letters: MaxRows %d must be 1 to %d", c.MaxRows, maxClaimRows)
	case c.Lease < time.Millisecond:
		return nil, fmt.Errorf("gormstore: claim dead letters: Lease %s must be positive", c.Lease)
	}
	err = s.inTx(ctx, "claim dead letters", func(tx dbTx) (err error) {
		out, err = s.claimLettersTx(ctx, tx, c)
		return err
	})
	return out, err
}

func (s *Store) claimLettersTx(ctx context.Context, tx dbTx, c model.DeadClaim) ([]model.DeadLetter, error) {
	rows, err := tx.QueryContext(ctx, s.d.bind("SELECT "+letterHead+" FROM "+s.sql.letters+
		s.d.force(s.opt.Prefix+"trans_dead_letter_alert")+" WHERE alert_at <= "+s.d.now+
		" AND status IN ('OPEN','PARKED') ORDER BY alert_at, id LIMIT ?"+s.d.skipLocked), c.MaxRows)
	found, err := collect(rows, err, scanLetterOnly)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	ids := make([]string, len(found))
	for i := range found {
		ids[i] = found[i].ID
	}
	for part := sortedIDs(ids); len(part) > 0; {
		n := min(len(part), maxRows)
		cond, args := s.d.in(part[:n], delayMS(c.Lease), c.Instance)
		met, err := affected(tx.ExecContext(ctx, s.d.bind("UPDATE "+s.sql.letters+" SET alert_at = "+s.d.now+
			"+?, claimed_by = ?, version = version+1 WHERE id "+cond), args...))
		if err := changedAll(met, err, n); err != nil {
			return nil, err
		}
		part = part[n:]
	}
	return found, nil
}

// MarkLetters says that the alert of these letters was accepted: it is not owed before next has passed, and then again;
// give a time far away for never. A letter that was edited since, or does not wait any more, is left alone. It returns
// how many it marked; an error means that some may be marked, and a repeat is harmless.
func (s *Store) MarkLetters(ctx context.Context, keys []model.RowKey, next time.Duration) (int, error) {
	if next < time.Millisecond {
		return 0, fmt.Errorf("gormstore: mark dead letters: next %s must be positive", next)
	}
	return inParts(keys, func(part []model.RowKey) (int, error) {
		cond, args := s.d.inKeys("", part, delayMS(next))
		return s.execOwn(ctx, "mark dead letters", "UPDATE "+s.sql.letters+" SET version = version+1, alert_at = "+
			s.d.now+"+?, claimed_by = '' WHERE "+cond+" AND status IN ('OPEN','PARKED')", args)
	})
}
