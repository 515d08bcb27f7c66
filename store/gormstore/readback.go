package gormstore

import (
	"context"

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
// map. Concurrent calls share queries. ctx ends the wait only.
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
	states, err := s.readStates(ctx, sortedIDs(ids))
	for _, l := range batch {
		l.err = s.wrap("read back", err)
		if err == nil {
			l.out = make(map[string]model.RowState, len(l.ids))
			for _, id := range l.ids {
				if st, ok := states[id]; ok {
					l.out[id] = st
				}
			}
		}
		close(l.done)
	}
}

func (s *Store) readStates(ctx context.Context, ids []string) (map[string]model.RowState, error) {
	type state struct {
		id string
		model.RowState
	}
	out := make(map[string]model.RowState, len(ids))
	for len(ids) > 0 {
		n := min(len(ids), maxRows)
		cond, args := s.d.in(ids[:n])
		rows, err := s.db.QueryContext(ctx, s.d.bind("SELECT id, version, epoch, status, next_attempt_at - "+s.d.now+
			" FROM "+s.sql.table+s.d.forceKey()+" WHERE id "+cond), args...)
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
