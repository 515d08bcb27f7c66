package gormstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/transmsg/transmsg/model"
)

// PurgeEvents deletes history older than the given age, oldest first, at most limit lines,
// and returns how many. It works by key in batches of at most 500, each committed by
// itself. Do not make the age shorter than a send can be late: [Store.Restore] looks for
// "discard" in the history.
func (s *Store) PurgeEvents(ctx context.Context, olderThan time.Duration, limit int) (int, error) {
	if err := checkPurge(olderThan, limit); err != nil {
		return 0, fmt.Errorf("gormstore: purge events: %w", err)
	}
	total := 0
	for total < limit {
		want := min(limit-total, maxRows)
		rows, err := s.db.QueryContext(ctx, s.d.bind("SELECT id FROM "+s.sql.events+" WHERE at <= "+s.d.now+
			"-? ORDER BY at LIMIT ?"), delayMS(olderThan), want)
		ids, err := collect(rows, err, func(r scanner, id *int64) error { return r.Scan(id) })
		if err != nil {
			return total, s.wrap("purge events", err)
		}
		if len(ids) == 0 {
			break
		}
		n, err := s.execOwn(ctx, "purge events", "DELETE FROM "+s.sql.events+" WHERE id IN ("+numbers(ids)+")", nil)
		total += n
		if err != nil {
			return total, err
		}
		if len(ids) < want {
			break
		}
	}
	return total, nil
}

func numbers(ids []int64) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatInt(id, 10)
	}
	return strings.Join(texts, ",")
}

// PurgeDead deletes rows that have been DEAD and unchanged for the given age, at most limit
// of them, and returns how many. A row whose alert is still owed stays. Each deleted row
// leaves a "purge" event. It works by key in batches of at most 500, each committed by
// itself.
func (s *Store) PurgeDead(ctx context.Context, olderThan time.Duration, limit int) (int, error) {
	if err := checkPurge(olderThan, limit); err != nil {
		return 0, fmt.Errorf("gormstore: purge dead: %w", err)
	}
	services, err := s.allServices(ctx)
	if err != nil {
		return 0, s.wrap("purge dead", err)
	}
	total := 0
	for _, service := range services {
		n, err := s.purgeService(ctx, service, olderThan, limit-total)
		if total += n; err != nil || total >= limit {
			return total, err
		}
	}
	return total, nil
}

func (s *Store) purgeService(ctx context.Context, service string, olderThan time.Duration, limit int) (int, error) {
	f := model.Filter{Status: model.Dead, OlderThan: olderThan}
	// What is due for a look, or leased for it, still owes its alert.
	also := " AND next_attempt_at > " + s.d.now + " AND claimed_by = '' AND updated_at <= " + s.d.now + "-" +
		strconv.FormatInt(delayMS(olderThan), 10)
	conds, args := s.matchingPart(part{service, f}, "")
	query := s.d.bind("SELECT id FROM " + s.sql.table + s.d.forceDue(s.opt.Prefix) + " WHERE id > ?" + conds + also +
		" ORDER BY next_attempt_at, id LIMIT ?")
	total := 0
	for total < limit {
		want := min(limit-total, maxRows)
		rows, err := s.db.QueryContext(ctx, query, append(args, want)...)
		ids, err := collect(rows, err, func(r scanner, id *string) error { return r.Scan(id) })
		if err != nil || len(ids) == 0 {
			return total, s.wrap("purge dead", err)
		}
		n := 0
		err = s.inTx(ctx, "purge dead", func(tx dbTx) (err error) {
			n, err = s.purgeTx(ctx, tx, ids, f, also)
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

func (s *Store) purgeTx(ctx context.Context, tx dbTx, ids []string, f model.Filter, also string) (int, error) {
	found, err := s.lockRows(ctx, tx, ids, f, also)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	if err := s.deleteLocked(ctx, tx, found); err != nil {
		return 0, err
	}
	events := make([]model.Event, len(found))
	for i, r := range found {
		events[i] = model.Event{RowID: r.id, Kind: model.EventPurge, Code: r.code, Attempts: r.attempts}
	}
	return len(found), s.insertEvents(ctx, tx, events)
}

func checkPurge(olderThan time.Duration, limit int) error {
	switch {
	case olderThan < time.Millisecond:
		return fmt.Errorf("age %s must be positive", olderThan)
	case limit < 1:
		return fmt.Errorf("limit %d must be at least 1", limit)
	}
	return nil
}
