package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/transmsg/transmsg/model"
)

// The bounds of a listing.
const (
	defaultListRows = 100
	maxListRows     = 10_000
)

// Services returns the services that have READY rows due now, sorted. It hops over the
// index from service to service, so its cost grows with their number, not with the rows.
func (s *Store) Services(ctx context.Context) ([]string, error) {
	if s.d.name == dialectMySQL {
		list, err := s.hopServices(ctx)
		return list, s.wrap("services", err)
	}
	t := s.sql.table
	// A scalar subquery, unlike an EXISTS, cannot become a join over all rows.
	rows, err := s.db.QueryContext(ctx, "WITH RECURSIVE s (service) AS ("+
		"SELECT MIN(service) FROM "+t+" UNION ALL "+
		"SELECT (SELECT m.service FROM "+t+" m WHERE m.service > s.service ORDER BY m.service LIMIT 1) "+
		"FROM s WHERE s.service IS NOT NULL) "+
		"SELECT service FROM s WHERE service IS NOT NULL AND (SELECT d.next_attempt_at FROM "+t+" d "+
		"WHERE d.service = s.service AND d.status = 'READY' ORDER BY d.next_attempt_at LIMIT 1) <= "+s.d.now+
		" ORDER BY service")
	list, err := collect(rows, err, func(r scanner, name *string) error { return r.Scan(name) })
	return list, s.wrap("services", err)
}

// hopServices makes one query per service: MySQL and MariaDB read every row for the
// recursive form, and take their loose index scan only when their statistics say so.
func (s *Store) hopServices(ctx context.Context) ([]string, error) {
	from := s.sql.table + s.d.forceDue(s.opt.Prefix)
	query := "SELECT m.service, COALESCE((SELECT next_attempt_at FROM " + from +
		" WHERE service = m.service AND status = 'READY' ORDER BY next_attempt_at LIMIT 1) <= " + s.d.now +
		", 0) FROM (SELECT service FROM " + from +
		" WHERE service > ? ORDER BY service LIMIT 1) m"
	var out []string
	var last string
	for {
		var due bool
		err := s.db.QueryRowContext(ctx, query, last).Scan(&last, &due)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return out, nil
		case err != nil:
			return nil, err
		case due:
			out = append(out, last)
		}
	}
}

// List returns rows without their payload, by rising id.
func (s *Store) List(ctx context.Context, f model.Filter) ([]model.TransMessage, error) {
	if f.Limit == 0 {
		f.Limit = defaultListRows
	}
	if f.Limit < 1 || f.Limit > maxListRows {
		return nil, fmt.Errorf("gormstore: list: Limit %d must be 1 to %d", f.Limit, maxListRows)
	}
	conds, args := s.matching(f, f.After)
	rows, err := s.db.QueryContext(ctx, s.d.bind("SELECT "+rowColumns+" FROM "+s.sql.table+" WHERE id > ?"+conds+
		" ORDER BY id LIMIT ?"), append(args, f.Limit)...)
	list, err := collect(rows, err, func(r scanner, t *model.TransMessage) error { return scanRow(r, t) })
	return list, s.wrap("list", err)
}

// matching returns the conditions of a filter, each with a leading AND, and args with
// their values appended.
func (s *Store) matching(f model.Filter, args ...any) (string, []any) {
	var query strings.Builder
	for _, c := range []struct{ column, value string }{
		{"service", f.Service},
		{"status", string(f.Status)},
		{"message_key", f.Key},
		{"exchange", f.Exchange},
		{"routing_key", f.RoutingKey},
		{"last_code", string(f.Code)},
	} {
		if c.value == "" {
			continue
		}
		query.WriteString(" AND " + c.column + " = ?")
		args = append(args, c.value)
		if s.d.name == dialectMySQL {
			// The _bin collations ignore trailing spaces.
			query.WriteString(" AND LENGTH(" + c.column + ") = ?")
			args = append(args, len(c.value))
		}
	}
	if f.Exhausted {
		query.WriteString(" AND status = 'READY' AND " + s.owes(model.AlertExhausted))
	}
	if f.Waiting {
		query.WriteString(" AND status = 'READY' AND next_attempt_at > " + s.d.now + " AND NOT " + s.d.leased())
		if !f.Early {
			query.WriteString(" AND (failures > 0 OR last_code <> '')")
		}
	}
	if f.OlderThan > 0 {
		query.WriteString(" AND created_at <= " + s.d.now + "-?")
		args = append(args, delayMS(f.OlderThan))
	}
	return query.String(), args
}

// Show returns one row with its payload, and its history, oldest first.
// [model.ErrNotFound] when there is no such row; its history is returned all the same,
// since it outlives the row.
func (s *Store) Show(ctx context.Context, id string) (model.TransMessage, []model.Event, error) {
	var t model.TransMessage
	err := scanRow(s.db.QueryRowContext(ctx, s.d.bind("SELECT "+rowColumns+", payload FROM "+s.sql.table+
		" WHERE id = ?"), id), &t, &t.Payload)
	gone := errors.Is(err, sql.ErrNoRows)
	if err != nil && !gone {
		return model.TransMessage{}, nil, s.wrap("show", err)
	}
	events, err := s.eventsOf(ctx, id)
	if err == nil && gone {
		err = fmt.Errorf("id %.80q: %w", id, model.ErrNotFound)
	}
	return t, events, s.wrap("show", err)
}
