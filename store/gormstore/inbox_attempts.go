package gormstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/transmsg/transmsg/model"
)

// rowQuerier asks for one row: a pool or a transaction.
type rowQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// CountRedelivery counts one more delivery of a message that came back without an answer, and
// returns the count: 1 for the first. It is written in a transaction of its own, so that it
// stays when the handler's rolls back or its process ends. The count begins anew with another
// round, and a message whose effect exists has none: 0.
func (s *Store) CountRedelivery(ctx context.Context, r model.InboxRecord) (count int, err error) {
	if err := r.Check(); err != nil {
		return 0, err
	}
	err = s.inTx(ctx, "count a redelivery", func(tx dbTx) error {
		count = 0
		done, err := s.recorded(ctx, tx, &r)
		if err != nil || done {
			return err
		}
		query, args := s.countStatement(&r)
		if _, err := tx.ExecContext(ctx, s.d.bind(query), args...); err != nil {
			return err
		}
		key, value := s.recordKey(r.Key)
		return tx.QueryRowContext(ctx, s.d.bind("SELECT attempts FROM "+s.sql.attempts+
			" WHERE consumer = ? AND record_key = "+key), r.Consumer, value).Scan(&count)
	})
	return count, err
}

// countStatement adds one. MySQL sets columns from left to right, the others at once: so the
// count is set before the round that it is compared with.
func (s *Store) countStatement(r *model.InboxRecord) (query string, args []any) {
	key, value := s.recordKey(r.Key)
	query = "INSERT INTO " + s.sql.attempts + " (consumer, record_key, round, attempts, first_at, last_at) VALUES (?," +
		key + ",?,1," + s.d.now + "," + s.d.now + ")"
	have := ""
	if s.d.name == dialectMySQL {
		query += " ON DUPLICATE KEY UPDATE "
	} else {
		query += " ON CONFLICT (consumer, record_key) DO UPDATE SET "
		have = s.sql.attempts + "."
	}
	query += "attempts = CASE WHEN " + have + "round = ? THEN " + have + "attempts + 1 ELSE 1 END, " +
		"round = ?, last_at = " + s.d.now
	return query, []any{r.Consumer, value, r.Round, r.Round, r.Round}
}

// PurgeInbox deletes records that were written, and counts that were changed, longer ago than
// the given age: oldest first, at most limit of each, and returns how many. It works in
// batches of at most 500, each committed by itself. A message that is delivered again later
// has a second effect: the age must be above the longest time for which one can come back.
func (s *Store) PurgeInbox(ctx context.Context, olderThan time.Duration, limit int) (int, error) {
	if err := checkPurge(olderThan, limit); err != nil {
		return 0, fmt.Errorf("gormstore: purge inbox: %w", err)
	}
	total, err := s.purgeInbox(ctx, s.sql.inbox, "done_at", olderThan, limit)
	if err != nil {
		return total, err
	}
	n, err := s.purgeInbox(ctx, s.sql.attempts, "last_at", olderThan, limit)
	return total + n, err
}

func (s *Store) purgeInbox(
	ctx context.Context, table, column string, olderThan time.Duration, limit int,
) (int, error) {
	total := 0
	for total < limit {
		want := min(limit-total, maxRows)
		n, err := s.execOwn(ctx, "purge inbox", s.purgeStatement(table, column), []any{delayMS(olderThan), want})
		total += n
		if err != nil || n < want {
			return total, err
		}
	}
	return total, nil
}

// purgeStatement deletes the oldest rows by the index of their time.
func (s *Store) purgeStatement(table, column string) string {
	oldest := " WHERE " + column + " <= " + s.d.now + "-? ORDER BY " + column + " LIMIT ?"
	switch s.d.name {
	case dialectMySQL:
		return "DELETE FROM " + table + oldest
	case dialectPostgres:
		return "DELETE FROM " + table + " WHERE ctid = ANY(ARRAY(SELECT ctid FROM " + table + oldest + "))"
	}
	return "DELETE FROM " + table + " WHERE (consumer, record_key) IN (SELECT consumer, record_key FROM " +
		table + oldest + ")"
}
