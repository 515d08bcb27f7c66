package gormstore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/transmsg/transmsg/model"
)

// The alerts that are owed for READY rows are in a table of their own: they are few, and an
// index for them on the big table would be paid for by every message. A line of it counts only
// while its row is READY in its epoch; what is left of others is swept.

// oweAlerts notes that the alert of these READY rows, which are locked, is owed from now on.
// One that was noted before in their epoch stays as it is, owed or told.
func (s *Store) oweAlerts(ctx context.Context, tx dbTx, kind model.AlertKind, ids []string) error {
	for ids = sortedIDs(ids); len(ids) > 0; {
		n := min(len(ids), maxRows)
		cond, args := s.d.in(ids[:n])
		_, err := tx.ExecContext(ctx, s.d.bind("INSERT INTO "+s.sql.alerts+
			" (row_id, kind, epoch, service, due_at, created_at) SELECT m.id, '"+string(kind)+"', m.epoch, m.service, "+
			s.d.now+", "+s.d.now+" FROM "+s.sql.table+" m"+s.d.forceKey()+" WHERE m.id "+cond+
			" AND NOT EXISTS (SELECT 1 FROM "+s.sql.alerts+" a WHERE a.row_id = m.id AND a.kind = '"+string(kind)+
			"' AND a.epoch = m.epoch)"), args...)
		if err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}

// owes is the condition on a row of the messages' table that it has an alert of the kind, owed or told.
func (s *Store) owes(kind model.AlertKind) string {
	return "EXISTS (SELECT 1 FROM " + s.sql.alerts + " a WHERE a.row_id = " + s.sql.table + ".id AND a.kind = '" +
		string(kind) + "' AND a.epoch = " + s.sql.table + ".epoch)"
}

// stale is the condition on a line a of the alerts that it counts no more.
func (s *Store) stale() string {
	return "NOT EXISTS (SELECT 1 FROM " + s.sql.table + " m WHERE m.id = a.row_id AND m.epoch = a.epoch " +
		"AND m.status = 'READY')"
}

// ClaimAlerts takes alerts that are owed for READY rows of any service, oldest first: they are
// the instance's to tell until the lease ends, and then due again, so that every alert is raised
// at least once. It passes over what another call holds, and deletes those whose row is gone,
// DEAD, or was edited or replayed since: there is nothing to tell any more.
func (s *Store) ClaimAlerts(ctx context.Context, c model.DeadClaim) ([]model.DueAlert, error) {
	switch {
	case c.MaxRows < 1 || c.MaxRows > maxClaimRows:
		return nil, fmt.Errorf("gormstore: claim alerts: MaxRows %d must be 1 to %d", c.MaxRows, maxClaimRows)
	case c.Lease < time.Millisecond:
		return nil, fmt.Errorf("gormstore: claim alerts: Lease %s must be positive", c.Lease)
	}
	var out []model.DueAlert
	err := s.inTx(ctx, "claim alerts", func(tx dbTx) (err error) {
		out, err = s.claimAlertsTx(ctx, tx, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Store) claimAlertsTx(ctx context.Context, tx dbTx, c model.DeadClaim) ([]model.DueAlert, error) {
	rows, err := tx.QueryContext(ctx, s.d.bind("SELECT row_id, kind, epoch, created_at FROM "+s.sql.alerts+
		" WHERE due_at <= "+s.d.now+" ORDER BY due_at, row_id LIMIT ?"+s.d.skipLocked), c.MaxRows)
	found, err := collect(rows, err, func(r scanner, o *model.DueAlert) error {
		return r.Scan(&o.Row.ID, &o.Kind, &o.Row.Epoch, &o.Since)
	})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	ids := make([]string, len(found))
	for i := range found {
		ids[i] = found[i].Row.ID
	}
	ready, err := s.readyRows(ctx, tx, sortedIDs(ids))
	if err != nil {
		return nil, err
	}
	var out []model.DueAlert
	var keep, drop []model.AlertKey
	for _, o := range found {
		row, ok := ready[o.Row.ID]
		if !ok || row.Epoch != o.Row.Epoch {
			drop = append(drop, o.Key())
			continue
		}
		keep, o.Row = append(keep, o.Key()), row
		out = append(out, o)
	}
	if _, err := s.changeAlerts(ctx, tx, drop, "DELETE FROM "+s.sql.alerts); err != nil {
		return nil, err
	}
	n, err := s.changeAlerts(ctx, tx, keep, "UPDATE "+s.sql.alerts+" SET due_at = "+s.d.now+"+?, claimed_by = ?",
		delayMS(c.Lease), c.Instance)
	return out, changedAll(n, err, len(keep))
}

// readyRows reads those of the rows that are READY, without payload.
func (s *Store) readyRows(ctx context.Context, tx dbTx, ids []string) (map[string]model.TransMessage, error) {
	out := make(map[string]model.TransMessage, len(ids))
	for len(ids) > 0 {
		n := min(len(ids), maxRows)
		cond, args := s.d.in(ids[:n])
		rows, err := tx.QueryContext(ctx, s.d.bind("SELECT "+rowColumns+" FROM "+s.sql.table+s.d.forceKey()+
			" WHERE id "+cond+" AND status = 'READY'"), args...)
		list, err := collect(rows, err, func(r scanner, t *model.TransMessage) error { return scanRow(r, t) })
		if err != nil {
			return nil, err
		}
		for i := range list {
			out[list[i].ID] = list[i]
		}
		ids = ids[n:]
	}
	return out, nil
}

// execer is a transaction or *sql.DB.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// changeAlerts runs a statement on the named alerts, a part of them at a time.
func (s *Store) changeAlerts(
	ctx context.Context, x execer, keys []model.AlertKey, statement string, args ...any,
) (total int, err error) {
	const part = 200
	for len(keys) > 0 {
		n := min(len(keys), part)
		all := append([]any(nil), args...)
		for _, k := range keys[:n] {
			all = append(all, k.ID, string(k.Kind), k.Epoch)
		}
		cond := strings.Repeat("(row_id = ? AND kind = ? AND epoch = ?) OR ", n)
		changed, err := affected(x.ExecContext(ctx, s.d.bind(statement+" WHERE "+cond[:len(cond)-len(" OR ")]), all...))
		if total += changed; err != nil {
			return total, err
		}
		keys = keys[n:]
	}
	return total, nil
}

// MarkAlerts says that these alerts were accepted: they are not owed before next has passed,
// and then again; give a time far away for never. It returns how many it marked; an error
// means that some may be marked, and a repeat is harmless.
func (s *Store) MarkAlerts(ctx context.Context, keys []model.AlertKey, next time.Duration) (n int, err error) {
	if next < time.Millisecond {
		return 0, fmt.Errorf("gormstore: mark alerts: next %s must be positive", next)
	}
	err = s.inTx(ctx, "mark alerts", func(tx dbTx) (err error) {
		n, err = s.changeAlerts(ctx, tx, keys, "UPDATE "+s.sql.alerts+" SET due_at = "+s.d.now+"+?, claimed_by = ''",
			delayMS(next))
		return err
	})
	return n, err
}

// SweepAlerts deletes alerts, told or not, whose row is gone, DEAD, or was edited or replayed
// since, at most limit, and returns how many.
func (s *Store) SweepAlerts(ctx context.Context, limit int) (int, error) {
	if limit < 1 {
		return 0, fmt.Errorf("gormstore: sweep alerts: limit %d must be at least 1", limit)
	}
	rows, err := s.db.QueryContext(ctx, s.d.bind("SELECT a.row_id, a.kind, a.epoch FROM "+s.sql.alerts+" a WHERE "+
		s.stale()+" LIMIT ?"), limit)
	keys, err := collect(rows, err, func(r scanner, k *model.AlertKey) error {
		return r.Scan(&k.ID, &k.Kind, &k.Epoch)
	})
	if err != nil || len(keys) == 0 {
		return 0, s.wrap("sweep alerts", err)
	}
	n := 0
	err = s.inTx(ctx, "sweep alerts", func(tx dbTx) (err error) {
		n, err = s.changeAlerts(ctx, tx, keys, "DELETE FROM "+s.sql.alerts)
		return err
	})
	return n, err
}

// exhausted counts by service the READY rows whose attempts are used up.
func (s *Store) exhausted(ctx context.Context, service string) (map[string]int64, error) {
	query, args := "SELECT m.service, COUNT(*) FROM "+s.sql.alerts+" a JOIN "+s.sql.table+
		" m"+s.d.forceKey()+" ON m.id = a.row_id AND m.epoch = a.epoch AND m.status = 'READY' WHERE a.kind = '"+
		string(model.AlertExhausted)+"'", []any(nil)
	if service != "" {
		query, args = query+" AND m.service = ?", append(args, service)
	}
	rows, err := s.db.QueryContext(ctx, s.d.bind(query+" GROUP BY m.service"), args...)
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for rows.Next() {
		var name string
		var n int64
		if err = rows.Scan(&name, &n); err != nil {
			break
		}
		out[name] = n
	}
	return out, closeRows(rows, err)
}
