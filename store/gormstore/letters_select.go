package gormstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/transmsg/transmsg/model"
)

// letterCandidate is a dead letter that an act may touch.
type letterCandidate struct {
	id           string
	status       model.LetterStatus
	queue, cause string
	route        model.LetterRoute
	size         int64
	old          bool
}

// ListLetters returns dead letters without their content, by rising id.
func (s *Store) ListLetters(ctx context.Context, f model.LetterFilter) ([]model.DeadLetter, error) {
	if f.Limit == 0 {
		f.Limit = defaultListRows
	}
	if f.Limit < 1 || f.Limit > maxListRows {
		return nil, fmt.Errorf("gormstore: list dead letters: Limit %d must be 1 to %d", f.Limit, maxListRows)
	}
	conds, args := s.matchingLetters(f, f.After)
	list, err := s.letterHeads(ctx, "id > ?"+conds+" ORDER BY id LIMIT ?", append(args, f.Limit))
	return list, s.wrap("list dead letters", err)
}

// letterHeads reads dead letters without content, and what became of those that were sent back.
func (s *Store) letterHeads(ctx context.Context, where string, args []any) ([]model.DeadLetter, error) {
	rows, err := s.db.QueryContext(ctx, s.d.bind("SELECT "+letterHead+" FROM "+s.sql.letters+" WHERE "+where), args...)
	list, err := collect(rows, err, scanLetterOnly)
	if err != nil {
		return nil, err
	}
	return list, s.addBecame(ctx, list)
}

// matchingLetters returns the conditions of a filter, each with a leading AND, and args with their values appended.
func (s *Store) matchingLetters(f model.LetterFilter, args ...any) (string, []any) {
	var query strings.Builder
	for _, c := range []struct{ column, value string }{
		{"service", f.Service},
		{"status", string(f.Status)},
		{"cause", f.Cause},
		{"message_key", f.Key},
		{"parent", f.Parent},
	} {
		if c.value == "" {
			continue
		}
		query.WriteString(" AND " + c.column + " = ?")
		args = append(args, c.value)
		if s.d.name == dialectMySQL { // the _bin collations ignore trailing spaces
			query.WriteString(" AND LENGTH(" + c.column + ") = ?")
			args = append(args, len(c.value))
		}
	}
	for _, c := range []struct{ column, value string }{
		{"queue_name", f.Queue}, {"exchange_name", f.Exchange}, {"key_name", f.RoutingKey}, {"message_id", f.WireID},
	} {
		if c.value != "" {
			query.WriteString(" AND " + c.column + " = ?")
			args = append(args, []byte(c.value))
		}
	}
	if f.Waiting {
		query.WriteString(" AND status IN ('OPEN','PARKED')")
	}
	if f.Replayable {
		query.WriteString(" AND unreplayable = ''")
	}
	if f.OlderThan > 0 {
		query.WriteString(" AND created_at <= " + s.d.now + "-?")
		args = append(args, delayMS(f.OlderThan))
	}
	return query.String(), args
}

// SelectLetters says what an act on the selection would touch: counts and a few samples, and how many of them first
// failed longer ago than old; zero asks for none. It changes and locks nothing, so an act that follows may meet others.
func (s *Store) SelectLetters(
	ctx context.Context, sel model.LetterSelection, old time.Duration,
) (model.LetterPreview, error) {
	p, err := s.previewLetters(ctx, sel, old)
	if err != nil {
		return model.LetterPreview{}, s.wrap("select dead letters", err)
	}
	return p, nil
}

func (s *Store) previewLetters(
	ctx context.Context, sel model.LetterSelection, old time.Duration,
) (p model.LetterPreview, err error) {
	if sel, err = sel.WithDefaults(); err != nil {
		return p, err
	}
	list, more, err := s.pickLetters(ctx, sel, old)
	if err != nil {
		return p, err
	}
	p.Rows, p.More = len(list), more
	counts, routes := map[model.LetterCount]int{}, map[[2]string]bool{}
	for i := range list {
		c := &list[i]
		p.Bytes += c.size
		if c.old && old > 0 {
			p.Old++
		}
		if route := [2]string{c.route.Exchange, c.route.RoutingKey}; !routes[route] {
			routes[route] = true
			p.Routes = append(p.Routes, c.route)
		}
		counts[model.LetterCount{Status: c.status, Queue: c.queue, Cause: c.cause}]++
	}
	for cause, n := range counts {
		cause.Rows = n
		p.Causes = append(p.Causes, cause)
	}
	slices.SortFunc(p.Causes, func(a, b model.LetterCount) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Queue, b.Queue),
			cmp.Compare(a.Cause, b.Cause))
	})
	if samples := letterIDs(list[:min(len(list), previewSamples)]); len(samples) > 0 {
		cond, args := s.d.in(samples)
		if p.Samples, err = s.letterHeads(ctx, "id "+cond+" ORDER BY id", args); err != nil {
			return p, err
		}
	}
	p.Others, err = s.otherLetters(ctx, sel.IDs, letterIDs(list))
	return p, err
}

func letterIDs(list []letterCandidate) []string {
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].id
	}
	return ids
}

// otherLetters counts by status those of the ids that were not found.
func (s *Store) otherLetters(ctx context.Context, ids, found []string) (map[model.LetterStatus]int, error) {
	have := make(map[string]bool, len(found))
	for _, id := range found {
		have[id] = true
	}
	rest := slices.DeleteFunc(sortedIDs(ids), func(id string) bool { return have[id] })
	out := map[model.LetterStatus]int{}
	for len(rest) > 0 {
		part := rest[:min(len(rest), maxRows)]
		cond, args := s.d.in(part)
		list, err := s.letterCandidates(ctx, s.d.forceKey()+" WHERE id "+cond, 0, args)
		if err != nil {
			return nil, err
		}
		for i := range list {
			out[list[i].status]++
		}
		rest = rest[len(part):]
	}
	return out, nil
}

// pickLetters finds the dead letters of a selection, up to its cap. What an act does with them later it does under a
// lock and after looking again.
func (s *Store) pickLetters(
	ctx context.Context, sel model.LetterSelection, old time.Duration,
) (list []letterCandidate, more bool, err error) {
	if len(sel.IDs) > 0 {
		list, err = s.pickLetterIDs(ctx, sel, old)
	} else {
		list, err = s.pickLettersWhere(ctx, sel, old)
	}
	if len(list) > sel.Max {
		return list[:sel.Max], true, err
	}
	return list, false, err
}

func (s *Store) pickLetterIDs(
	ctx context.Context, sel model.LetterSelection, old time.Duration,
) ([]letterCandidate, error) {
	var out []letterCandidate
	for ids := sortedIDs(sel.IDs); len(ids) > 0 && len(out) <= sel.Max; {
		part := ids[:min(len(ids), maxRows)]
		cond, args := s.d.in(part)
		conds, args := s.matchingLetters(sel.Filter, args...)
		found, err := s.letterCandidates(ctx, s.d.forceKey()+" WHERE id "+cond+conds+" ORDER BY id", old, args)
		if err != nil {
			return nil, err
		}
		out, ids = append(out, found...), ids[len(part):]
	}
	return out, nil
}

// pickLettersWhere goes by the index that starts with status and queue.
func (s *Store) pickLettersWhere(
	ctx context.Context, sel model.LetterSelection, old time.Duration,
) ([]letterCandidate, error) {
	statuses := model.LetterStatuses()
	switch {
	case sel.Filter.Status != "":
		statuses = []model.LetterStatus{sel.Filter.Status}
	case sel.Filter.Waiting:
		statuses = []model.LetterStatus{model.LetterOpen, model.LetterParked}
	}
	var out []letterCandidate
	for _, status := range statuses {
		f := sel.Filter
		f.Status = status
		conds, args := s.matchingLetters(f, "")
		found, err := s.letterCandidates(ctx, s.d.force(s.opt.Prefix+"trans_dead_letter_status")+" WHERE id > ?"+conds+
			" ORDER BY id LIMIT ?", old, append(args, sel.Max+1-len(out)))
		if err != nil {
			return nil, err
		}
		if out = append(out, found...); len(out) > sel.Max {
			break
		}
	}
	return out, nil
}

func (s *Store) letterCandidates(
	ctx context.Context, where string, old time.Duration, args []any,
) ([]letterCandidate, error) {
	args = append([]any{delayMS(old)}, args...)
	rows, err := s.db.QueryContext(ctx,
		s.d.bind("SELECT id, status, queue_name, cause, exchange_name, key_name, size, CASE WHEN "+
			"COALESCE(NULLIF(first_at, 0), created_at) < "+s.d.now+"-? THEN 1 ELSE 0 END FROM "+s.sql.letters+where),
		args...)
	return collect(rows, err, func(r scanner, c *letterCandidate) error {
		var queue, exchange, key []byte
		err := r.Scan(&c.id, &c.status, &queue, &c.cause, &exchange, &key, &c.size, &c.old)
		c.queue, c.route = string(queue), model.LetterRoute{
			Exchange: string(exchange), RoutingKey: string(key),
			SampleID: c.id,
		}
		return err
	})
}

// lockLetters locks those of at most 500 dead letters that still match the filter and the further condition, and reads
// them whole. Of two acts at the same time the second one waits here and finds the letters changed.
func (s *Store) lockLetters(
	ctx context.Context, tx dbTx, ids []string, f model.LetterFilter, also string,
) ([]model.DeadLetter, error) {
	cond, args := s.d.in(sortedIDs(ids))
	conds, args := s.matchingLetters(f, args...)
	rows, err := tx.QueryContext(ctx, s.d.bind("SELECT "+letterColumns+" FROM "+s.sql.letters+s.d.forceKey()+
		" WHERE id "+cond+conds+also+" ORDER BY id"+s.d.forUpdate), args...)
	return collect(rows, err, scanLetter)
}
