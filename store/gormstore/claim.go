package gormstore

import (
	"context"
	"fmt"
	"time"

	"github.com/transmsg/transmsg/model"
)

// maxClaimRows bounds one claim: its ids are the parameters of one statement.
const maxClaimRows = 5000

// due is a candidate of a claim.
type due struct {
	id      string
	at      int64
	size    int64
	version int
}

// Claim takes rows of one service that are due, oldest first, for the owner: in one short
// transaction it locks their ids by the index, passing over what another claim holds,
// raises version and claims, sets the lease, and reads the bodies by key. Two claims at
// the same time split the rows. The returned rows are the owner's until the lease ends;
// measure that from before the call. A crash right after the commit costs nothing but the
// lease: the rows are due again when it ends.
//
// MaxRows must be 1 to 5000, Lease and MaxBytes positive.
func (s *Store) Claim(ctx context.Context, c model.Claim) (model.Claimed, error) {
	switch {
	case c.MaxRows < 1 || c.MaxRows > maxClaimRows:
		return model.Claimed{}, fmt.Errorf("gormstore: claim: MaxRows %d must be 1 to %d", c.MaxRows, maxClaimRows)
	case c.MaxBytes < 1:
		return model.Claimed{}, fmt.Errorf("gormstore: claim: MaxBytes %d must be positive", c.MaxBytes)
	case c.Lease < time.Millisecond:
		return model.Claimed{}, fmt.Errorf("gormstore: claim: Lease %s must be positive", c.Lease)
	}
	var out model.Claimed
	err := s.inTx(ctx, "claim", func(tx dbTx) error {
		candidates, more, err := s.findDue(ctx, tx, c)
		if err != nil || len(candidates) == 0 {
			out = model.Claimed{}
			return err
		}
		last := candidates[len(candidates)-1]
		out = model.Claimed{Last: model.Cursor{DueAt: last.at, ID: last.id}, More: more}
		out.Rows, err = s.take(ctx, tx, c, candidates)
		return err
	})
	if err != nil {
		return model.Claimed{}, err
	}
	return out, nil
}

// inOrder keeps PostgreSQL, for one transaction, from collecting and sorting every due row
// where its statistics are older than a backlog: the index has them in order.
const inOrder = "SELECT set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true), " +
	"set_config('enable_seqscan', 'off', true)"

// findDue locks the ids of due rows within the bounds.
func (s *Store) findDue(ctx context.Context, tx dbTx, c model.Claim) (list []due, more bool, err error) {
	if s.d.name == dialectPostgres {
		if _, err := tx.ExecContext(ctx, inOrder); err != nil {
			return nil, false, err
		}
	}
	query, args := s.dueQuery(c)
	rows, err := tx.QueryContext(ctx, query, args...)
	list, err = collect(rows, err, func(r scanner, d *due) error { return r.Scan(&d.id, &d.at, &d.size, &d.version) })
	if err != nil {
		return nil, false, err
	}
	var sum int64
	for i, d := range list {
		// What lies beyond the bound was locked but not changed: the commit frees it.
		if sum += d.size; i > 0 && sum > c.MaxBytes {
			return list[:i], true, nil
		}
	}
	return list, len(list) == c.MaxRows, nil
}

// dueQuery walks the index in its own order from the lower bound up, so that there is
// nothing to sort and nothing is locked beyond the limit.
func (s *Store) dueQuery(c model.Claim) (query string, args []any) {
	query = "SELECT id, next_attempt_at, size, version FROM " + s.sql.table + s.d.forceDue(s.opt.Prefix) +
		" WHERE service = ? AND status = 'READY' AND next_attempt_at <= " + s.d.now
	args = []any{c.Service}
	if c.After != (model.Cursor{}) {
		query += " AND next_attempt_at >= ? AND (next_attempt_at > ? OR id > ?)"
		args = append(args, c.After.DueAt, c.After.DueAt, c.After.ID)
	}
	query += " ORDER BY next_attempt_at, id LIMIT ?" + s.d.skipLocked
	return s.d.bind(query), append(args, c.MaxRows)
}

// take sets the lease on the candidates and reads them.
func (s *Store) take(ctx context.Context, tx dbTx, c model.Claim, list []due) ([]model.TransMessage, error) {
	ids := make([]string, len(list))
	for i, d := range list {
		ids[i] = d.id
	}
	ordered := sortedIDs(ids)
	cond, args := s.d.in(ordered, delayMS(c.Lease), c.Owner)
	// Guarded although the rows are locked: the guard, not the lock, is what excludes
	// double claims should a server ever drop the locking clause.
	_, err := tx.ExecContext(ctx, s.d.bind("UPDATE "+s.sql.table+" SET version = version+1, claims = claims+1, "+
		"next_attempt_at = "+s.d.now+"+?, claimed_by = ?, updated_at = "+s.d.now+
		" WHERE id "+cond+" AND status = 'READY' AND next_attempt_at <= "+s.d.now), args...)
	if err != nil {
		return nil, err
	}
	cond, args = s.d.in(ordered)
	rows, err := tx.QueryContext(ctx, s.d.bind("SELECT "+rowColumns+", payload FROM "+s.sql.table+
		" WHERE id "+cond), args...)
	byID := make(map[string]*model.TransMessage, len(list))
	_, err = collect(rows, err, func(r scanner, t *model.TransMessage) error {
		err := scanRow(r, t, &t.Payload)
		byID[t.ID] = t
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]model.TransMessage, 0, len(byID))
	for _, d := range list {
		if t := byID[d.id]; t != nil && t.Version == d.version+1 { // else the guard held it back
			t.NextAttemptAt = d.at
			out = append(out, *t)
		}
	}
	return out, nil
}
