package gormstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/transmsg/transmsg/model"
)

// Groups counts the matching rows by service, exchange, routing key and last code, most
// rows first. The status defaults to DEAD, or with Exhausted to READY; the limit bounds the groups, 1 to 10,000, and
// defaults to 100.
func (s *Store) Groups(ctx context.Context, f model.Filter) ([]model.Group, error) {
	if f.Limit == 0 {
		f.Limit = defaultListRows
	}
	if f.Limit < 1 || f.Limit > maxListRows {
		return nil, fmt.Errorf("gormstore: groups: Limit %d must be 1 to %d", f.Limit, maxListRows)
	}
	f.Status = statusOf(f)
	out, err := s.groups(ctx, f)
	if err == nil {
		err = s.sampleKeys(ctx, out)
	}
	if err != nil {
		return nil, s.wrap("groups", err)
	}
	return out, nil
}

func (s *Store) groups(ctx context.Context, f model.Filter) ([]model.Group, error) {
	parts, err := s.partitions(ctx, f)
	if err != nil {
		return nil, err
	}
	by := s.d.exactly("service", "exchange", "routing_key", "last_code")
	var out []model.Group
	for _, p := range parts {
		conds, args := s.matchingPart(p, "")
		rows, err := s.db.QueryContext(ctx, s.d.bind("SELECT service, exchange, routing_key, last_code, COUNT(*), "+
			"MIN(updated_at), MAX(updated_at), MIN(id) FROM "+s.sql.table+s.d.forceDue(s.opt.Prefix)+
			" WHERE id > ?"+conds+" GROUP BY "+by+" "+
			"ORDER BY COUNT(*) DESC, "+by+" LIMIT ?"), append(args, f.Limit)...)
		found, err := collect(rows, err, func(r scanner, g *model.Group) error {
			return r.Scan(&g.Service, &g.Exchange, &g.RoutingKey, &g.Code, &g.Rows, &g.First, &g.Last, &g.SampleID)
		})
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	slices.SortStableFunc(out, func(a, b model.Group) int { return cmp.Compare(b.Rows, a.Rows) })
	return out[:min(len(out), f.Limit)], nil
}

// sampleKeys reads the business keys of the groups' samples. A sample that is gone since
// has none.
func (s *Store) sampleKeys(ctx context.Context, groups []model.Group) error {
	for len(groups) > 0 {
		part := groups[:min(len(groups), maxRows)]
		ids := make([]string, len(part))
		for i := range part {
			ids[i] = part[i].SampleID
		}
		rows, err := s.readRows(ctx, sortedIDs(ids), model.Filter{}, false)
		if err != nil {
			return err
		}
		keys := make(map[string]string, len(rows))
		for i := range rows {
			keys[rows[i].ID] = rows[i].MessageKey
		}
		for i := range part {
			part[i].SampleKey = keys[part[i].SampleID]
		}
		groups = groups[len(part):]
	}
	return nil
}
