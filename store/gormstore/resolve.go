package gormstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/transmsg/transmsg/model"
)

// resolve is called when a statement of these units was refused for a duplicate id. It
// reads the existing rows, finishes every unit that needs no INSERT any more, and
// returns those to insert now and those that must wait for them, since two callers
// handed in the same id at the same time. On an error nothing is finished.
func (s *Store) resolve(ctx context.Context, units []*unit) (now, later []*unit, err error) {
	var ids []string
	for _, u := range units {
		for i := range u.rows {
			if u.found[i] == 0 {
				ids = append(ids, u.rows[i].ID)
			}
		}
	}
	existing, err := s.committed(ctx, ids)
	if err == nil && len(existing) == 0 && s.d.name != dialectSQLite { // deleted since, or a replica was asked
		err = s.onPrimary(ctx, func(q querier) error {
			existing, err = s.readContent(ctx, q, ids, s.d.forUpdate)
			return err
		})
	}
	// A row whose commit gave up its wait for a synchronous standby is seen here, and a fail-over
	// loses it. A commit of our own that logs something waits until the standby has all before it.
	if err == nil && s.d.name == dialectPostgres && slices.ContainsFunc(units, func(u *unit) bool { return u.unsure }) {
		_, err = s.db.ExecContext(ctx, "SELECT pg_logical_emit_message(true, 'transmsg', '')")
	}
	if err != nil {
		return nil, nil, err
	}
	taken := make(map[string]bool, len(ids))
	for _, u := range units {
		switch compare(u, existing) {
		case unitRefused:
			close(u.done)
		case unitStored:
			finish([]*unit{u})
		default:
			if claimIDs(u, taken) {
				now = append(now, u)
			} else {
				later = append(later, u)
			}
		}
	}
	return now, later, nil
}

type unitState uint8

const (
	unitPending unitState = iota // some rows are still to insert
	unitStored                   // all rows exist with equal content
	unitRefused                  // a row is dead or other: nothing of it is stored
)

// compare gives every existing row its result.
func compare(u *unit, existing map[string]*model.TransMessage) unitState {
	state := unitStored
	for i := range u.rows {
		if u.found[i] == model.StoredOther || u.found[i] == model.StoredDead {
			state = unitRefused
		}
		if u.found[i] != 0 {
			continue
		}
		switch u.found[i] = u.match(existing[u.rows[i].ID], i); u.found[i] {
		case 0:
			if state == unitStored {
				state = unitPending
			}
		case model.StoredOther, model.StoredDead:
			state = unitRefused
		case model.StoredNew, model.StoredBefore:
		}
	}
	return state
}

// match is the result for the i-th row. One in the very epoch that an INSERT of the unit with an
// unknown result gave it is that INSERT's: it did take effect, and the row is the caller's to send.
func (u *unit) match(have *model.TransMessage, i int) model.Stored {
	f := match(have, &u.rows[i].TransMessage)
	if f == model.StoredBefore && u.unsure && have.Epoch == u.rows[i].Epoch {
		return model.StoredNew
	}
	return f
}

// match is the result for a row whose id have holds; zero where that is nil.
func match(have, want *model.TransMessage) model.Stored {
	switch {
	case have == nil:
		return 0
	case !model.SameContent(have, want):
		return model.StoredOther
	case have.Status == model.Dead:
		return model.StoredDead
	}
	return model.StoredBefore
}

// claimIDs reports whether no earlier unit of the batch inserts one of u's ids.
func claimIDs(u *unit, taken map[string]bool) bool {
	for i := range u.rows {
		if u.found[i] == 0 && taken[u.rows[i].ID] {
			return false
		}
	}
	for i := range u.rows {
		if u.found[i] == 0 {
			taken[u.rows[i].ID] = true
		}
	}
	return true
}

// querier is *sql.DB or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// committed reads the committed rows with these ids, inside a transaction of its own: a balancer
// sends a plain SELECT to a replica, where a fresh row is not yet, but one in a transaction that
// may write to the primary. SQLite has no replica, and its transactions wait for the writer.
func (s *Store) committed(ctx context.Context, ids []string) (rows map[string]*model.TransMessage, err error) {
	if s.d.name == dialectSQLite {
		return s.readContent(ctx, s.db, ids, "")
	}
	err = s.tryTx(ctx, func(tx dbTx) error {
		rows, err = s.readContent(ctx, tx, ids, "")
		return err
	})
	return rows, err
}

// readContent reads what SameContent compares, the epoch and the status.
func (s *Store) readContent(
	ctx context.Context, q querier, ids []string, lock string,
) (map[string]*model.TransMessage, error) {
	out := make(map[string]*model.TransMessage)
	for len(ids) > 0 {
		n := min(len(ids), maxRows)
		cond, args := s.d.in(ids[:n])
		rows, err := q.QueryContext(ctx, s.d.bind("SELECT id, epoch, status, message_key, exchange, routing_key, "+
			"properties, payload FROM "+s.sql.table+" WHERE id "+cond+lock), args...)
		if err != nil {
			return nil, fmt.Errorf("read existing rows: %w", err)
		}
		for rows.Next() {
			var t model.TransMessage
			if err = rows.Scan(&t.ID, &t.Epoch, &t.Status, &t.MessageKey, &t.Exchange, &t.RoutingKey,
				&t.Properties, &t.Payload); err != nil {
				break
			}
			out[t.ID] = &t
		}
		if err = closeRows(rows, err); err != nil {
			return nil, fmt.Errorf("read existing rows: %w", err)
		}
		ids = ids[n:]
	}
	return out, nil
}
