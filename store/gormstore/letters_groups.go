package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/transmsg/transmsg/model"
)

// LetterGroups counts the matching dead letters by service, status, queue and cause, most first. Without a status it is
// about those that wait, OPEN and PARKED; the limit bounds the groups, 1 to 10,000, and defaults to 100. Of REPLAYED
// letters it counts what became of them.
func (s *Store) LetterGroups(ctx context.Context, f model.LetterFilter) ([]model.LetterGroup, error) {
	if f.Limit == 0 {
		f.Limit = defaultListRows
	}
	if f.Limit < 1 || f.Limit > maxListRows {
		return nil, fmt.Errorf("gormstore: groups of dead letters: Limit %d must be 1 to %d", f.Limit, maxListRows)
	}
	f.Waiting = f.Status == ""
	out, err := s.letterGroups(ctx, f)
	if err == nil && f.Status == model.LetterReplayed {
		err = s.countBecame(ctx, f, out)
	}
	return out, s.wrap("groups of dead letters", err)
}

func (s *Store) letterGroups(ctx context.Context, f model.LetterFilter) ([]model.LetterGroup, error) {
	by := s.d.exactly("service", "status", "queue_name", "cause")
	conds, args := s.matchingLetters(f, "")
	rows, err := s.db.QueryContext(ctx, s.d.bind("SELECT service, status, queue_name, cause, COUNT(*), "+
		"SUM(CASE WHEN unreplayable = '' THEN 0 ELSE 1 END), MIN(created_at), MAX(created_at), MIN(id) FROM "+
		s.sql.letters+" WHERE id > ?"+conds+" GROUP BY "+by+" ORDER BY COUNT(*) DESC, "+by+" LIMIT ?"),
		append(args, f.Limit)...)
	out, err := collect(rows, err, func(r scanner, g *model.LetterGroup) error {
		var queue []byte
		err := r.Scan(&g.Service, &g.Status, &queue, &g.Cause, &g.Rows, &g.Unreplayable, &g.First, &g.Last, &g.SampleID)
		g.Queue = string(queue)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, s.letterSampleKeys(ctx, out)
}

// letterSampleKeys reads the business keys of the groups' samples. A sample that is gone since has none.
func (s *Store) letterSampleKeys(ctx context.Context, groups []model.LetterGroup) error {
	for len(groups) > 0 {
		part := groups[:min(len(groups), maxRows)]
		ids := make([]string, len(part))
		for i := range part {
			ids[i] = part[i].SampleID
		}
		cond, args := s.d.in(sortedIDs(ids))
		rows, err := s.db.QueryContext(ctx, s.d.bind("SELECT id, message_key FROM "+s.sql.letters+" WHERE id "+cond),
			args...)
		found, err := collect(rows, err, func(r scanner, kv *[2]string) error { return r.Scan(&kv[0], &kv[1]) })
		if err != nil {
			return err
		}
		keys := make(map[string]string, len(found))
		for _, kv := range found {
			keys[kv[0]] = kv[1]
		}
		for i := range part {
			part[i].SampleKey = keys[part[i].SampleID]
		}
		groups = groups[len(part):]
	}
	return nil
}

// countBecame counts in each group of REPLAYED letters what became of them.
func (s *Store) countBecame(ctx context.Context, f model.LetterFilter, groups []model.LetterGroup) error {
	became, names, err := s.became(ctx)
	if err != nil {
		return err
	}
	type key struct{ service, queue, cause string }
	index := make(map[key]*model.LetterGroup, len(groups))
	for i := range groups {
		g := &groups[i]
		g.Became = map[model.Became]int64{}
		index[key{g.Service, g.Queue, g.Cause}] = g
	}
	conds, args := s.matchingLetters(f, append(names, "")...)
	by := s.d.exactly("service", "queue_name", "cause")
	rows, err := s.db.QueryContext(ctx, s.d.bind("SELECT service, queue_name, cause, became, COUNT(*) FROM (SELECT "+
		"service, queue_name, cause, "+became+" AS became FROM "+s.sql.letters+" l WHERE id > ?"+conds+") x GROUP BY "+
		by+
		", became"), args...)
	type count struct {
		key
		became model.Became
		n      int64
	}
	list, err := collect(rows, err, func(r scanner, c *count) error {
		var queue []byte
		err := r.Scan(&c.service, &queue, &c.cause, &c.became, &c.n)
		c.queue = string(queue)
		return err
	})
	for _, c := range list {
		if g := index[c.key]; g != nil { // else beyond the limit
			g.Became[c.became] += c.n
		}
	}
	return err
}

// addBecame says of those of the letters that are REPLAYED what became of them.
func (s *Store) addBecame(ctx context.Context, list []model.DeadLetter) error {
	index := map[string]*model.DeadLetter{}
	var ids []string
	for i := range list {
		if list[i].Status == model.LetterReplayed {
			ids, index[list[i].ID] = append(ids, list[i].ID), &list[i]
		}
	}
	if len(ids) == 0 {
		return nil
	}
	became, names, err := s.became(ctx)
	if err != nil {
		return err
	}
	for ids = sortedIDs(ids); len(ids) > 0; {
		part := ids[:min(len(ids), maxRows)]
		cond, args := s.d.in(part, names...)
		rows, err := s.db.QueryContext(ctx, s.d.bind("SELECT id, "+became+" FROM "+s.sql.letters+" l WHERE id "+cond),
			args...)
		found, err := collect(rows, err, func(r scanner, kv *[2]string) error { return r.Scan(&kv[0], &kv[1]) })
		if err != nil {
			return err
		}
		for _, kv := range found {
			index[kv[0]].Became = model.Became(kv[1])
		}
		ids = ids[len(part):]
	}
	return nil
}

// became is the expression of what became of the REPLAYED letter l, and its parameters.
func (s *Store) became(ctx context.Context) (expression string, args []any, err error) {
	consumers, err := s.inboxConsumers(ctx)
	if err != nil {
		return "", nil, err
	}
	handled := ""
	if len(consumers) > 0 {
		for _, c := range consumers {
			args = append(args, c)
		}
		handled = " WHEN EXISTS (SELECT 1 FROM " + s.sql.inbox + " i WHERE i.consumer IN (" +
			placeholders(len(consumers)) + ") AND i.record_key IN (l.message_id, " + s.d.bytesOf("l.replay_id") +
			")) THEN '" + string(model.BecameHandled) + "'"
	}
	row := "(SELECT m.status FROM " + s.sql.table + " m WHERE m.id = l.replay_id)"
	return "CASE WHEN EXISTS (SELECT 1 FROM " + s.sql.letters + " c WHERE c.parent = l.id AND c.created_at >= " +
		"l.replayed_at) THEN '" + string(model.BecameFailed) + "' WHEN " + row + " = 'READY' THEN '" +
		string(model.BecameWaiting) + "' WHEN " + row + " = 'DEAD' THEN '" + string(model.BecameDead) + "'" + handled +
		" WHEN EXISTS (SELECT 1 FROM " + s.sql.events + " e WHERE e.row_id = l.replay_id AND e.kind = '" +
		model.EventDiscard + "') THEN '" + string(model.BecameDiscarded) + "' ELSE '" + string(model.BecameSent) +
		"' END", args, nil
}

// inboxConsumers hops over the inbox from consumer to consumer.
func (s *Store) inboxConsumers(ctx context.Context) ([]string, error) {
	query := s.d.bind("SELECT consumer FROM " + s.sql.inbox + " WHERE consumer > ? ORDER BY consumer LIMIT 1")
	var out []string
	var last string
	for {
		switch err := s.db.QueryRowContext(ctx, query, last).Scan(&last); {
		case errors.Is(err, sql.ErrNoRows):
			return out, nil
		case err != nil:
			return nil, err
		}
		out = append(out, last)
	}
}

// bytesOf is the bytes of a text column that holds ASCII.
func (d *dialect) bytesOf(column string) string {
	switch d.name {
	case dialectPostgres:
		return "convert_to(" + column + ", 'UTF8')"
	case dialectMySQL:
		return "CAST(" + column + " AS BINARY)"
	}
	return "CAST(" + column + " AS BLOB)"
}
