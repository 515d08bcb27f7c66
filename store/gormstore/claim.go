package gormstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/transmsg/transmsg/model"
)

// maxClaimRows bounds one claim: its ids are the parameters of one statement.
const maxClaimRows = 5000

// smallContent is how much body and properties a claim reads together with the lock. More is
// read once it is known to fit into the claim; MySQL keeps it on pages of its own, which it
// would read for every row that is looked at. Rows beyond the claim's bytes may be read too
// and are dropped: 8000 bytes for each of MaxRows at most.
const smallContent = 8000

// Claim takes rows of one service that are due, oldest first, for the instance: in one short
// transaction it locks them by the index, passing over what another claim holds, raises
// version and claims, sets the lease, and reads by key the content that it does not have
// yet, unless Bare. Two claims at the same time split the rows. The returned rows are the instance's until
// the lease ends; measure that from before the call. A crash right after the commit costs
// nothing but the lease: the rows are due again when it ends.
//
// Where the content cannot be read the error is a [model.UnreadError].
//
// MaxRows must be 1 to 5000, Lease and MaxBytes positive.
func (s *Store) Claim(ctx context.Context, c model.Claim) (model.Claimed, error) {
	switch {
	case c.MaxRows < 1 || c.MaxRows > maxClaimRows:
		return model.Claimed{}, fmt.Errorf("gormstore: claim: MaxRows %d must be 1 to %d", c.MaxRows, maxClaimRows)
	case c.MaxBytes < 1:
		return model.Claimed{}, fmt.Errorf("gormstore: claim: MaxBytes %d must be positive", c.MaxBytes)
	case c.LoneFrom < 0:
		return model.Claimed{}, fmt.Errorf("gormstore: claim: LoneFrom %d must not be negative", c.LoneFrom)
	case c.Lease < time.Millisecond:
		return model.Claimed{}, fmt.Errorf("gormstore: claim: Lease %s must be positive", c.Lease)
	}
	var out model.Claimed
	err := s.inTx(ctx, "claim", func(tx dbTx) (err error) {
		out = model.Claimed{}
		if out, err = s.lockDue(ctx, tx, c); err != nil || len(out.Rows) == 0 {
			return err
		}
		last := &out.Rows[len(out.Rows)-1]
		out.Last = model.Cursor{DueAt: last.NextAttemptAt, ID: last.ID}
		if err := s.lease(ctx, tx, c, out.Rows); err != nil {
			return err
		}
		if c.Bare {
			return nil
		}
		if err := s.completeRows(ctx, tx, out.Rows); err != nil {
			return &model.UnreadError{ID: out.Rows[0].ID, Rows: len(out.Rows), Err: err}
		}
		return nil
	})
	if err != nil {
		return model.Claimed{}, err
	}
	if len(out.Rows) > 0 && !c.Bare {
		s.small.Store(!slices.ContainsFunc(out.Rows, func(t model.TransMessage) bool { return t.Size > smallContent }))
	}
	return out, nil
}

// inOrder keeps PostgreSQL, for one transaction, from collecting and sorting every due row
// where its statistics are older than a backlog: the index has them in order.
const inOrder = "SELECT set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true), " +
	"set_config('enable_seqscan', 'off', true)"

// lockDue locks due rows within the bounds and reads them as they were, but for UpdatedAt,
// which is the database's clock; with their content where the last claim's was small.
func (s *Store) lockDue(ctx context.Context, tx dbTx, c model.Claim) (out model.Claimed, err error) {
	if s.d.name == dialectPostgres {
		if _, err := tx.ExecContext(ctx, inOrder); err != nil {
			return out, err
		}
	}
	query, args := s.dueQuery(c)
	rows, err := tx.QueryContext(ctx, query, args...)
	list, err := collect(rows, err, func(r scanner, t *model.TransMessage) error {
		return scanRow(r, t, &t.UpdatedAt, &t.Payload)
	})
	if err != nil {
		return out, err
	}
	var sum int64
	for i := range list {
		if lone := c.LoneFrom > 0 && list[i].Claims+1 >= c.LoneFrom; lone && i == 0 {
			return model.Claimed{Rows: list[:1], More: true}, nil
		} else if lone {
			return model.Claimed{Rows: list[:i], More: true, LoneNext: true}, nil
		}
		// What lies beyond the bound was locked but not changed: the commit frees it.
		if sum += int64(list[i].Size); i > 0 && sum > c.MaxBytes {
			return model.Claimed{Rows: list[:i], More: true}, nil
		}
	}
	return model.Claimed{Rows: list, More: len(list) == c.MaxRows}, nil
}

// dueQuery walks the index in its own order from the lower bound up, so that there is
// nothing to sort and nothing is locked beyond the limit.
func (s *Store) dueQuery(c model.Claim) (query string, args []any) {
	small := func(column string) string {
		if c.Bare || !s.small.Load() {
			return "NULL"
		}
		return "CASE WHEN size <= " + strconv.Itoa(smallContent) + " THEN " + column + " END"
	}
	query = "SELECT " + strings.Replace(rowColumns, "properties", small("properties"), 1) + ", " + s.d.now + ", " +
		small("payload") + " FROM " + s.sql.table + s.d.forceDue(s.opt.Prefix) +
		" WHERE service = ? AND status = 'READY' AND next_attempt_at <= " + s.d.now
	args = []any{c.Service}
	if c.After != (model.Cursor{}) {
		query += " AND next_attempt_at >= ? AND (next_attempt_at > ? OR id > ?)"
		args = append(args, c.After.DueAt, c.After.DueAt, c.After.ID)
	}
	query += " ORDER BY next_attempt_at, id LIMIT ?" + s.d.skipLocked
	return s.d.bind(query), append(args, c.MaxRows)
}

// lease makes the locked rows the instance's.
func (s *Store) lease(ctx context.Context, tx dbTx, c model.Claim, list []model.TransMessage) error {
	now := list[len(list)-1].UpdatedAt // the latest: SQLite looks at its clock for each row
	if c.LoneFrom > 0 && list[0].Claims+1 >= c.LoneFrom {
		if err := s.leaseLone(ctx, tx, c, &list[0], now); err != nil {
			return err
		}
	}
	ids := make([]string, len(list))
	for i := range list {
		t := &list[i]
		t.Version, t.Claims, t.ClaimedBy, t.UpdatedAt = t.Version+1, t.Claims+1, c.Instance, now
		ids[i] = t.ID
	}
	cond, args := s.d.in(sortedIDs(ids), now+delayMS(c.Lease), c.Instance, now)
	// Guarded although the rows are locked: the guard, not the lock, is what excludes
	// double claims should a server ever drop the locking clause.
	n, err := affected(tx.ExecContext(ctx, s.d.bind("UPDATE "+s.sql.table+" SET version = version+1, "+
		"claims = claims+1, next_attempt_at = ?, claimed_by = ?, updated_at = ? WHERE id "+cond+
		" AND status = 'READY' AND next_attempt_at <= "+s.d.now), args...))
	return changedAll(n, err, len(list))
}

// loneAlert is the number of claims alone from which the alert of a row is owed: one ended
// without a settle.
const loneAlert = 2

// leaseLone counts a claim in which the row, which is locked, is the only one. An old version
// settles without resetting the count, so it never exceeds the claims that can have been alone.
func (s *Store) leaseLone(ctx context.Context, tx dbTx, c model.Claim, t *model.TransMessage, now int64) error {
	t.LoneClaims = min(t.LoneClaims, t.Claims+1-c.LoneFrom) + 1
	if t.LoneClaims == 1 {
		t.LoneSince = now
	}
	_, err := tx.ExecContext(ctx, s.d.bind("UPDATE "+s.sql.table+" SET lone_claims = ?, lone_since = ? WHERE id = ?"),
		t.LoneClaims, t.LoneSince, t.ID)
	if err != nil || t.LoneClaims < loneAlert {
		return err
	}
	return s.oweAlerts(ctx, tx, model.AlertCrashLoop, []string{t.ID})
}

// completeRows reads the properties and bodies that the rows do not have.
func (s *Store) completeRows(ctx context.Context, tx dbTx, list []model.TransMessage) error {
	var ids []string
	for i := range list {
		if list[i].Properties == nil || list[i].Payload == nil {
			ids = append(ids, list[i].ID)
		}
	}
	have, err := s.readContent(ctx, tx, sortedIDs(ids), "")
	for i := range list {
		if t := have[list[i].ID]; t != nil {
			list[i].Properties, list[i].Payload = t.Properties, t.Payload
		}
	}
	return changedAll(len(have), err, len(ids))
}
