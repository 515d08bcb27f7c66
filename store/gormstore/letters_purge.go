package gormstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/transmsg/transmsg/model"
)

// PurgeLetters deletes dead letters, of any status, that nobody has changed for the given age, at most limit of them,
// and returns how many. Those that wait and whose alert is still owed stay, and so does a letter whose replay is still
// stored as a message. Each deleted letter leaves a "purge" event. It works in batches of at most 500, each committed
// by itself.
func (s *Store) PurgeLetters(ctx context.Context, olderThan time.Duration, limit int) (int, error) {
	if err := checkPurge(olderThan, limit); err != nil {
		return 0, fmt.Errorf("gormstore: purge dead letters: %w", err)
	}
	also := " AND alert_at > " + s.d.now + " AND claimed_by = '' AND updated_at <= " + s.d.now + "-" +
		strconv.FormatInt(delayMS(olderThan), 10) +
		" AND NOT EXISTS (SELECT 1 FROM " + s.sql.table + " m WHERE m.id = replay_id)"
	// Every letter that may go has told its alert: so it is in the index of alerts, behind now.
	query := s.d.bind("SELECT id FROM " + s.sql.letters + s.d.force(s.opt.Prefix+"trans_dead_letter_alert") +
		" WHERE created_at <= " + s.d.now + "-?" + also + " LIMIT ?")
	total := 0
	for total < limit {
		want := min(limit-total, maxRows)
		rows, err := s.db.QueryContext(ctx, query, delayMS(olderThan), want)
		ids, err := collect(rows, err, func(r scanner, id *string) error { return r.Scan(id) })
		if err != nil || len(ids) == 0 {
			return total, s.wrap("purge dead letters", err)
		}
		n := 0
		err = s.inTx(ctx, "purge dead letters", func(tx dbTx) (err error) {
			n, err = s.purgeLettersTx(ctx, tx, ids, also)
			return err
		})
		if err != nil {
			return total, err
		}
		if total += n; len(ids) < want {
			break
		}
	}
	return total, nil
}

func (s *Store) purgeLettersTx(ctx context.Context, tx dbTx, ids []string, also string) (int, error) {
	cond, args := s.d.in(sortedIDs(ids))
	rows, err := tx.QueryContext(ctx, s.d.bind("SELECT "+letterHead+" FROM "+s.sql.letters+s.d.forceKey()+" WHERE id "+
		cond+also+" ORDER BY id"+s.d.forUpdate), args...)
	found, err := collect(rows, err, scanLetterOnly)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	locked := make([]string, len(found))
	for i := range found {
		locked[i] = found[i].ID
	}
	cond, args = s.d.in(locked)
	n, err := affected(tx.ExecContext(ctx, s.d.bind("DELETE FROM "+s.sql.letters+" WHERE id "+cond), args...))
	if err := changedAll(n, err, len(found)); err != nil {
		return 0, err
	}
	return n, s.letterEvents(ctx, tx, model.EventPurge, "", found, func(int) string { return "" })
}
