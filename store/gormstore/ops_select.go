package gormstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/transmsg/transmsg/model"
)

// previewSamples is the number of rows that a preview shows.
const previewSamples = 5

// candidate is a row that an act may touch.
type candidate struct {
	id     string
	status model.Status
	code   model.CauseCode
	size   int64
	leased bool
}

// Select says what an act on the selection would touch: counts and a few samples. It
// changes nothing and locks nothing, so an act that follows may meet other rows.
func (s *Store) Select(ctx context.Context, sel model.Selection) (model.Preview, error) {
	p, err := s.preview(ctx, sel)
	if err != nil {
		return model.Preview{}, s.wrap("select", err)
	}
	return p, nil
}

func (s *Store) preview(ctx context.Context, sel model.Selection) (model.Preview, error) {
	sel, err := sel.WithDefaults()
	if err != nil {
		return model.Preview{}, err
	}
	list, more, err := s.pick(ctx, sel)
	if err != nil {
		return model.Preview{}, err
	}
	p := model.Preview{Rows: len(list), More: more}
	counts := map[model.CauseCount]int{}
	for i := range list {
		c := &list[i]
		p.Bytes += c.size
		if c.leased {
			p.Leased++
		}
		counts[model.CauseCount{Status: c.status, Code: c.code}]++
	}
	for cause, n := range counts {
		cause.Rows = n
		p.Causes = append(p.Causes, cause)
	}
	slices.SortFunc(p.Causes, func(a, b model.CauseCount) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Code, b.Code))
	})
	p.Samples, err = s.readRows(ctx, candidateIDs(list[:min(len(list), previewSamples)]), sel.Filter, false)
	return p, err
}

func candidateIDs(list []candidate) []string {
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].id
	}
	return ids
}

// leased says that a READY row is somebody's at the moment.
func (d *dialect) leased() string {
	return "(status = 'READY' AND claimed_by <> '' AND next_attempt_at > " +
		d.now + "-" + strconv.FormatInt(sendTail.Milliseconds(), 10) + ")"
}

// sendTail is how long after the end of its lease a row counts as being sent: nothing says
// that its sender, who has not settled it, has given up. A changed row would go out beside the
// old message, and nobody would know. Four times the sender's default confirm timeout.
const sendTail = 2 * time.Minute

// pick finds the rows of a selection, up to its cap. What an act does with them later it
// does under a lock and after looking again.
func (s *Store) pick(ctx context.Context, sel model.Selection) (list []candidate, more bool, err error) {
	switch {
	case len(sel.IDs) > 0:
		list, err = s.pickIDs(ctx, sel)
	case sel.Filter.Key != "":
		list, err = s.pickWhere(ctx, s.d.force(s.opt.Prefix+"trans_message_key"), sel.Filter, sel.Max+1)
	default:
		list, err = s.pickByIndex(ctx, sel)
	}
	if len(list) > sel.Max {
		return list[:sel.Max], true, err
	}
	return list, false, err
}

func (s *Store) pickIDs(ctx context.Context, sel model.Selection) ([]candidate, error) {
	var out []candidate
	for ids := sortedIDs(sel.IDs); len(ids) > 0 && len(out) <= sel.Max; {
		n := min(len(ids), maxRows)
		cond, args := s.d.in(ids[:n])
		conds, args := s.matching(sel.Filter, args...)
		found, err := s.candidates(ctx, s.d.forceKey()+" WHERE id "+cond+conds+" ORDER BY id", args)
		if err != nil {
			return nil, err
		}
		out, ids = append(out, found...), ids[n:]
	}
	return out, nil
}

// pickByIndex goes by the index that starts with service and status: to name neither must
// not mean to read every row.
func (s *Store) pickByIndex(ctx context.Context, sel model.Selection) ([]candidate, error) {
	parts, err := s.partitions(ctx, sel.Filter)
	if err != nil {
		return nil, err
	}
	var out []candidate
	for _, p := range parts {
		if len(out) > sel.Max {
			break
		}
		conds, args := s.matchingPart(p, "")
		found, err := s.candidates(ctx, s.d.forceDue(s.opt.Prefix)+" WHERE id > ?"+conds+" ORDER BY id LIMIT ?",
			append(args, sel.Max+1-len(out)))
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

func (s *Store) pickWhere(ctx context.Context, hint string, f model.Filter, limit int) ([]candidate, error) {
	conds, args := s.matching(f, "")
	return s.candidates(ctx, hint+" WHERE id > ?"+conds+" ORDER BY id LIMIT ?", append(args, limit))
}

func (s *Store) candidates(ctx context.Context, where string, args []any) ([]candidate, error) {
	rows, err := s.db.QueryContext(ctx, s.d.bind("SELECT id, status, last_code, size, CASE WHEN "+s.d.leased()+
		" THEN 1 ELSE 0 END FROM "+s.sql.table+where), args...)
	return collect(rows, err, func(r scanner, c *candidate) error {
		return r.Scan(&c.id, &c.status, &c.code, &c.size, &c.leased)
	})
}

// part is what a walk over the index of due rows visits at a time.
type part struct {
	service string // as the index tells services apart: on MySQL "pay" is "pay " too
	model.Filter
}

// matchingPart is matching for one part.
func (s *Store) matchingPart(p part, args ...any) (string, []any) {
	conds, args := s.matching(p.Filter, append(args, p.service)...)
	return " AND service = ?" + conds, args
}

// partitions splits a filter into one for each service and status that it admits.
func (s *Store) partitions(ctx context.Context, f model.Filter) ([]part, error) {
	services, statuses := []string{f.Service}, []model.Status{f.Status}
	if f.Service == "" {
		var err error
		if services, err = s.allServices(ctx); err != nil {
			return nil, err
		}
	}
	if f.Status == "" {
		statuses = []model.Status{model.Dead, model.Ready}
	}
	var out []part
	for _, service := range services {
		for _, f.Status = range statuses {
			out = append(out, part{service, f})
		}
	}
	return out, nil
}

// allServices hops over the index from service to service. On MySQL services that differ in
// trailing spaces alone are one key of it, and the first of them stands for all.
func (s *Store) allServices(ctx context.Context) ([]string, error) {
	query := s.d.bind("SELECT service FROM " + s.sql.table + s.d.forceDue(s.opt.Prefix) +
		" WHERE service > ? ORDER BY service LIMIT 1")
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

// readRows reads those of at most 500 rows that match the filter, sorted by id.
func (s *Store) readRows(
	ctx context.Context, ids []string, f model.Filter, payload bool,
) ([]model.TransMessage, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	columns := rowColumns
	if payload {
		columns += ", payload"
	}
	cond, args := s.d.in(ids)
	conds, args := s.matching(f, args...)
	rows, err := s.db.QueryContext(ctx, s.d.bind("SELECT "+columns+" FROM "+s.sql.table+s.d.forceKey()+
		" WHERE id "+cond+conds+" ORDER BY id"), args...)
	return collect(rows, err, func(r scanner, t *model.TransMessage) error {
		if payload {
			return scanRow(r, t, &t.Payload)
		}
		return scanRow(r, t)
	})
}

// lockedRow is what an act knows of a row that it has locked.
type lockedRow struct {
	id       string
	code     model.CauseCode
	attempts int
}

// lockRows locks those of at most 500 rows that still match the filter and the further
// condition. Of two acts at the same time the second one waits here and finds the rows
// changed.
func (s *Store) lockRows(
	ctx context.Context, tx dbTx, ids []string, f model.Filter, also string,
) ([]lockedRow, error) {
	cond, args := s.d.in(sortedIDs(ids))
	conds, args := s.matching(f, args...)
	rows, err := tx.QueryContext(ctx, s.d.bind("SELECT id, last_code, attempts FROM "+s.sql.table+s.d.forceKey()+
		" WHERE id "+cond+conds+also+" ORDER BY id"+s.d.forUpdate), args...)
	return collect(rows, err, func(r scanner, l *lockedRow) error { return r.Scan(&l.id, &l.code, &l.attempts) })
}

func lockedIDs(list []lockedRow) []string {
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].id
	}
	return ids
}

// changedAll refuses to commit when a statement met fewer rows than were locked.
func changedAll(n int, err error, want int) error {
	if err == nil && n != want {
		err = fmt.Errorf("%d of %d locked rows were met", n, want)
	}
	return err
}
