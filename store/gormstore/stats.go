package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/transmsg/transmsg/model"
)

// Stats returns counts and ages per service, sorted; one service where its name is
// given, and then always one element. It reads the index alone, all of it, and one row of each
// service: only where the oldest READY row has a NotBefore the service's READY rows are read.
func (s *Store) Stats(ctx context.Context, service string) ([]model.Stats, error) {
	query, args := s.statsQuery(service)
	rows, err := s.db.QueryContext(ctx, query, args...)
	groups, err := collect(rows, err, func(r scanner, g *statsGroup) error {
		return r.Scan(&g.service, &g.status, &g.count, &g.due, &g.dueAge, &g.age, &g.ahead, &g.timed)
	})
	if err != nil {
		return nil, s.wrap("stats", err)
	}
	exhausted, err := s.exhausted(ctx, service)
	if err != nil {
		return nil, s.wrap("stats", err)
	}
	var out []model.Stats
	if service != "" {
		out = append(out, model.Stats{Service: service})
	}
	for i := range groups {
		g := &groups[i]
		if g.timed && g.status == model.Ready {
			if g.age, err = s.oldestReady(ctx, g.service); err != nil {
				return nil, s.wrap("stats", err)
			}
		}
		if len(out) == 0 || out[len(out)-1].Service != g.service {
			out = append(out, model.Stats{Service: g.service})
		}
		g.addTo(&out[len(out)-1])
	}
	for i := range out {
		out[i].Exhausted = exhausted[out[i].Service]
	}
	return out, nil
}

// OldestDue returns for how long the service's first due row has been due, 0 where none is. It
// reads one entry of the index, whatever the backlog.
func (s *Store) OldestDue(ctx context.Context, service string) (time.Duration, error) {
	conds, args := s.matching(model.Filter{Service: service, Status: model.Ready})
	var age int64
	err := s.db.QueryRowContext(ctx, s.d.bind("SELECT "+s.d.now+" - next_attempt_at FROM "+s.sql.table+
		s.d.forceDue(s.opt.Prefix)+strings.Replace(conds, " AND", " WHERE", 1)+" ORDER BY next_attempt_at LIMIT 1"),
		args...).Scan(&age)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return max(0, model.MillisToDuration(age)), s.wrap("oldest due", err)
}

// statsQuery goes by the index of due rows, which has no NotBefore: of the oldest row of each
// group it is looked up by key, in the same statement, so that the row is there.
func (s *Store) statsQuery(service string) (query string, args []any) {
	by := s.d.exactly("service")
	from := s.sql.table + s.d.forceDue(s.opt.Prefix)
	query = "SELECT service, status, COUNT(*) AS number, " +
		"SUM(CASE WHEN next_attempt_at <= n.now THEN 1 ELSE 0 END) AS due, " +
		"n.now - MIN(next_attempt_at) AS due_age, n.now - MIN(created_at) AS age, MAX(created_at) - n.now AS ahead, " +
		"MIN(created_at) AS oldest FROM " + from + " CROSS JOIN (SELECT " + s.d.now + " AS now) n"
	if service != "" {
		conds, values := s.matching(model.Filter{Service: service})
		query, args = query+strings.Replace(conds, " AND", " WHERE", 1), values
	}
	same := "i.service = g.service"
	if s.d.name == dialectMySQL {
		same += " AND LENGTH(i.service) = LENGTH(g.service)"
	}
	first := "SELECT i.id FROM " + s.sql.table + " AS i" + s.d.forceDue(s.opt.Prefix) + " WHERE " + same +
		" AND i.status = g.status AND i.created_at = g.oldest ORDER BY i.next_attempt_at LIMIT 1"
	// By a join: MySQL runs a query that a column is compared with three times.
	query = "SELECT h.service, h.status, h.number, h.due, h.due_age, h.age, h.ahead, " +
		"CASE WHEN t.not_before > h.oldest THEN 1 ELSE 0 END FROM (SELECT g.*, (" + first + ") AS first_id FROM (" +
		query + " GROUP BY " + by + ", status, n.now) AS g) AS h LEFT JOIN " + s.sql.table +
		" AS t ON t.id = h.first_id ORDER BY " + strings.ReplaceAll(by, "service", "h.service")
	return s.d.bind(query), args
}

// oldestReady is how many milliseconds ago the first READY row of a service could be sent that
// can be by now; 0 where all wait for their NotBefore. It reads the rows.
func (s *Store) oldestReady(ctx context.Context, service string) (age int64, err error) {
	conds, args := s.matching(model.Filter{Service: service, Status: model.Ready})
	err = s.db.QueryRowContext(ctx, s.d.bind("SELECT n.now - MIN("+s.d.later("created_at", "not_before")+") FROM "+
		s.sql.table+s.d.forceDue(s.opt.Prefix)+" CROSS JOIN (SELECT "+s.d.now+" AS now) n WHERE not_before <= n.now"+
		conds+" GROUP BY n.now"), args...).Scan(&age)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return age, err
}

// statsGroup is one service and status; ages in milliseconds.
type statsGroup struct {
	service                        string
	status                         model.Status
	count, due, dueAge, age, ahead int64
	timed                          bool // the oldest by created_at has a NotBefore
}

func (g *statsGroup) addTo(st *model.Stats) {
	if g.status == model.Dead {
		st.Dead = g.count
		return
	}
	st.Ready, st.Due = g.count, g.due
	st.OldestDue = max(0, model.MillisToDuration(g.dueAge))
	st.OldestReady = max(0, model.MillisToDuration(g.age))
	st.Ahead = max(0, model.MillisToDuration(g.ahead))
}
