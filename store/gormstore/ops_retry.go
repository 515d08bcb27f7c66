package gormstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/transmsg/transmsg/model"
)

// Retry makes READY rows due now that wait after a send that failed or was put off, so that
// nothing waits for its backoff once the cause is mended. Attempts and failures stay, the version
// grows, and a "retry" event tells actor, reason and selection. Rows that are due already, or are
// being sent, are passed over, and so are those that were never tried, whose NotBefore has not
// come, unless the filter's Early is set. The filter's status must be READY or empty.
//
// Batches, concurrency, rate and result are as in [Store.Replay].
func (s *Store) Retry(ctx context.Context, a model.OperatorAct, rate float64) (int, error) {
	if err := checkRate(rate); err != nil {
		return 0, fmt.Errorf("gormstore: retry: %w", err)
	}
	if a.Filter.Status == model.Dead {
		return 0, errors.New("gormstore: retry: DEAD rows are replayed, got status DEAD")
	}
	if _, err := a.Selection.WithDefaults(); err != nil { // before the filter names all that wait
		return 0, fmt.Errorf("gormstore: retry: %w", err)
	}
	a.Filter.Status, a.Filter.Waiting = model.Ready, true
	return s.act(ctx, "retry", a, func(tx dbTx, a *model.OperatorAct, ids []string, done int) (int, error) {
		found, err := s.lockRows(ctx, tx, ids, a.Filter, "")
		if err != nil || len(found) == 0 {
			return 0, err
		}
		if err := s.makeDue(ctx, tx, lockedIDs(found), done, rate); err != nil {
			return 0, err
		}
		return len(found), s.actEvents(ctx, tx, a, model.EventRetry, found)
	})
}

// makeDue retries locked rows; the first of them is the done-th of its call.
func (s *Store) makeDue(ctx context.Context, tx dbTx, ids []string, done int, rate float64) error {
	delay, args := spreadOver(ids, done, rate)
	cond, args := s.d.in(ids, args...)
	n, err := affected(tx.ExecContext(ctx, s.d.bind("UPDATE "+s.sql.table+" SET version = version+1, "+
		"next_attempt_at = "+s.d.now+"+"+delay+", updated_at = "+s.d.now+" WHERE id "+cond+" AND status = 'READY'"),
		args...))
	return changedAll(n, err, len(ids))
}
