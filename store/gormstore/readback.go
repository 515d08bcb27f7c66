package gormstore

import (
	"context"
	"maps"
	"slices"

	"github.com/transmsg/transmsg/model"
)

// lookup is one call of ReadBack.
type lookup struct {
	ids  []string
	out  map[string]model.RowState
	err  error
	done chan struct{}
}

// ReadBack reports which of the ids exist, by primary key and outside of any
// transaction, so that it sees what is committed. Ids without a row are missing from the
// map: before it says so, it has looked for them on the primary, and where that cannot be told,
// it is an error. Concurrent calls share queries. ctx ends the wait only.
func (s *Store) ReadBack(ctx context.Context, ids []string) (map[string]model.RowState, error) {
	if len(ids) == 0 {
		return map[string]model.RowState{}, nil
	}
	l := &lookup{ids: ids, done: make(chan struct{})}
	if !s.reads.add(l) {
		return nil, s.wrap("read back", model.ErrClosed)
	}
	select {
	case <-l.done:
		return l.out, l.err
	case <-ctx.Done():
		s.reads.remove(l)
		return nil, s.wrap("read back", ctx.Err())
	}
}

// takeLookups bounds a query by ids; a call above it goes alone, in several.
func (s *Store) takeLookups(queue []*lookup) int {
	n := 0
	for i, l := range queue {
		if n += len(l.ids); i > 0 && n > maxRows {
			return i
		}
	}
	return len(queue)
}

func (s *Store) runLookups(batch []*lookup) {
	ctx, cancel := context.WithTimeout(context.Background(), s.opt.InsertTimeout)
	defer cancel()
	var ids []string
	for _, l := range batch {
		ids = append(ids, l.ids...)
	}
	ids = sortedIDs(ids)
	var states map[string]model.RowState
	err := s.readAgain(ctx, func() (err error) {
		states, err = s.readStates(ctx, s.db, ids, "")
		return err
	})
	var unsure error // what is not found may be there all the same
	missing := slices.DeleteFunc(ids, func(id string) bool { _, found := states[id]; return found })
	if err == nil && len(missing) > 0 && s.d.name != dialectSQLite {
		unsure = s.readAgain(ctx, func() error {
			return s.onPrimary(ctx, func(q querier) error {
				late, err := s.readStates(ctx, q, missing, s.d.forUpdate)
				maps.Copy(states, late)
				return err
			})
		})
	}
	for _, l := range batch {
		l.answer(states)
		if l.err = s.wrap("read back", err); err == nil && len(l.out) < len(l.ids) {
			l.err = s.wrap("look for rows on the primary", unsure)
		}
		close(l.done)
	}
}

// readAgain reads a few times until it succeeds: one connection that broke tells nothing about the
// rows, and the caller is about to hear that nobody knows.
func (s *Store) readAgain(ctx context.Context, read func() error) error {
	const tries = 3
	for try := 1; ; try++ {
		err := read()
		if err == nil || try == tries || pause(ctx, try) != nil {
			return err
		}
		s.evictReadOnly(err)
	}
}

// answer takes the call's own rows.
func (l *lookup) answer(states map[string]model.RowState) {
	l.out = make(map[string]model.RowState, len(l.ids))
	for _, id := range l.ids {
		if st, ok := states[id]; ok {
			l.out[id] = st
		}
	}
}

func (s *Store) readStates(
	ctx context.Context, q querier, ids []string, lock string,
) (map[string]model.RowState, error) {
	type state struct {
		id string
		model.RowState
	}
	out := make(map[string]model.RowState, len(ids))
	for len(ids) > 0 {
		n := min(len(ids), maxRows)
		cond, args := s.d.in(ids[:n])
		rows, err := q.QueryContext(ctx, s.d.bind("SELECT id, version, epoch, status, next_attempt_at - "+s.d.now+
			" FROM "+s.sql.table+s.d.forceKey()+" WHERE id "+cond+lock), args...)
		found, err := collect(rows, err, func(r scanner, st *state) error {
			var left int64
			err := r.Scan(&st.id, &st.Version, &st.Epoch, &st.Status, &left)
			st.LeaseLeft = model.MillisToDuration(left)
			return err
		})
		if err != nil {
			return nil, err
		}
		for i := range found {
			out[found[i].id] = found[i].RowState
		}
		ids = ids[n:]
	}
	return out, nil
}
