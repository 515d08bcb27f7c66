package gormstore

import (
	"context"
	"time"

	"github.com/transmsg/transmsg/model"
)

// ExtendTx gives rows that the caller's transaction has stored a new lease from now on,
// through the caller's handle, and returns how many of the ids there are. It is for the
// moment before the commit of a transaction that has been open for long: without it the
// rows are due as soon as they are visible, and a compensator may deliver and delete them
// before anybody can read them back. As with InsertTx nothing is retried and errors come
// back unchanged.
func (s *Store) ExtendTx(ctx context.Context, x model.Execer, ids []string, lease time.Duration) (int, error) {
	total := 0
	for sorted := sortedIDs(ids); len(sorted) > 0; {
		n := min(len(sorted), maxRows)
		// Placeholders rather than an array: the handle's driver may be lib/pq.
		args := []any{delayMS(lease)}
		for _, id := range sorted[:n] {
			args = append(args, id)
		}
		got, err := affected(x.ExecContext(ctx, s.d.bind("UPDATE "+s.sql.table+" SET next_attempt_at = "+s.d.now+
			"+? WHERE id IN ("+placeholders(n)+") AND version = 0 AND status = 'READY'"), args...))
		if err != nil {
			return total, err
		}
		total, sorted = total+got, sorted[n:]
	}
	return total, nil
}
