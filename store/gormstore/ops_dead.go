package gormstore

import (
	"context"
	"fmt"
	"time"

	"github.com/transmsg/transmsg/model"
)

// ClaimDead takes DEAD rows of any service that are due for a look: those whose alert is
// still owed. Like a claim it sets a lease and raises version, passes over what another
// call holds, and two calls at the same time split the rows. Rows come without payload,
// by service and due time. A claimer that ends before [Store.MarkAlerted] costs the lease
// alone: then the rows are due again, so that every alert is raised at least once.
func (s *Store) ClaimDead(ctx context.Context, c model.DeadClaim) ([]model.TransMessage, error) {
	switch {
	case c.MaxRows < 1 || c.MaxRows > maxClaimRows:
		return nil, fmt.Errorf("gormstore: claim dead: MaxRows %d must be 1 to %d", c.MaxRows, maxClaimRows)
	case c.Lease < time.Millisecond:
		return nil, fmt.Errorf("gormstore: claim dead: Lease %s must be positive", c.Lease)
	}
	services, err := s.allServices(ctx)
	if err != nil || len(services) == 0 {
		return nil, s.wrap("claim dead", err)
	}
	var out []model.TransMessage
	err = s.inTx(ctx, "claim dead", func(tx dbTx) (err error) {
		out, err = s.claimDeadTx(ctx, tx, c, services)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Store) claimDeadTx(
	ctx context.Context, tx dbTx, c model.DeadClaim, services []string,
) ([]model.TransMessage, error) {
	if s.d.name == dialectPostgres {
		if _, err := tx.ExecContext(ctx, inOrder); err != nil {
			return nil, err
		}
	}
	query := s.d.bind("SELECT id FROM " + s.sql.table + s.d.forceDue(s.opt.Prefix) +
		" WHERE service = ? AND status = 'DEAD' AND next_attempt_at <= " + s.d.now +
		" ORDER BY next_attempt_at, id LIMIT ?" + s.d.skipLocked)
	var ids []string
	for _, service := range services {
		if len(ids) == c.MaxRows {
			break
		}
		rows, err := tx.QueryContext(ctx, query, service, c.MaxRows-len(ids))
		found, err := collect(rows, err, func(r scanner, id *string) error { return r.Scan(id) })
		if err != nil {
			return nil, err
		}
		ids = append(ids, found...)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return s.leaseDead(ctx, tx, c, ids)
}

// leaseDead sets the lease on locked rows and reads them. updated_at stays: it is when a
// row died.
func (s *Store) leaseDead(
	ctx context.Context, tx dbTx, c model.DeadClaim, ids []string,
) ([]model.TransMessage, error) {
	cond, args := s.d.in(ids, delayMS(c.Lease), c.Instance)
	n, err := affected(tx.ExecContext(ctx, s.d.bind("UPDATE "+s.sql.table+" SET version = version+1, "+
		"next_attempt_at = "+s.d.now+"+?, claimed_by = ? WHERE id "+cond+" AND status = 'DEAD'"), args...))
	if err := changedAll(n, err, len(ids)); err != nil {
		return nil, err
	}
	cond, args = s.d.in(ids)
	rows, err := tx.QueryContext(ctx, s.d.bind("SELECT "+rowColumns+" FROM "+s.sql.table+" WHERE id "+cond), args...)
	found, err := collect(rows, err, func(r scanner, t *model.TransMessage) error { return scanRow(r, t) })
	if err != nil {
		return nil, err
	}
	byID := make(map[string]*model.TransMessage, len(found))
	for i := range found {
		byID[found[i].ID] = &found[i]
	}
	out := make([]model.TransMessage, 0, len(ids))
	for _, id := range ids {
		if t := byID[id]; t != nil {
			out = append(out, *t)
		}
	}
	return out, nil
}

// MarkAlerted says that the alert of these rows was accepted: they are not due for a look
// before next has passed, and then their alert is owed again; give a time far away for
// never. A row that was replayed or edited since, or is not DEAD, is left alone. It
// returns how many rows it marked; an error means that some may be marked, and a repeat is
// harmless.
func (s *Store) MarkAlerted(ctx context.Context, keys []model.RowKey, next time.Duration) (int, error) {
	if next < time.Millisecond {
		return 0, fmt.Errorf("gormstore: mark alerted: next %s must be positive", next)
	}
	return inParts(keys, func(part []model.RowKey) (int, error) {
		cond, args := s.d.inKeys("", part, delayMS(next))
		return s.execOwn(ctx, "mark alerted", "UPDATE "+s.sql.table+" SET version = version+1, next_attempt_at = "+
			s.d.now+"+?, claimed_by = '' WHERE "+cond+" AND status = 'DEAD'", args)
	})
}
