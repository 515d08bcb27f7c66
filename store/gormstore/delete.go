package gormstore

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/transmsg/transmsg/model"
)

// Delete deletes confirmed rows by key, each only in the epoch that was sent, and returns
// how many it found. Keys are sorted and go in statements of at most 500, each committed
// by itself: an error means that some may be deleted, and a repeat is harmless. A delete
// that rivals undid is run again.
//
// Rows that somebody else holds locked are passed over after a second, at once on a
// caller's pool, and a [*model.BusyError] names them: all others are deleted.
func (s *Store) Delete(ctx context.Context, keys []model.RowKey) (int, error) {
	var held []string
	n, err := inParts(keys, func(part []model.RowKey) (int, error) {
		n, busy, err := s.deleteKeys(ctx, part)
		held = append(held, busy...)
		return n, err
	})
	if err == nil && len(held) > 0 {
		err = &model.BusyError{IDs: held}
	}
	return n, s.wrap("delete", err)
}

// deleteKeys hopes that no row is locked: then it is one statement.
func (s *Store) deleteKeys(ctx context.Context, keys []model.RowKey) (n int, busy []string, err error) {
	if s.own {
		query, args := s.deleteQuery(keys)
		for try := 1; ; try++ {
			n, err := affected(s.db.ExecContext(ctx, query, args...))
			if s.d.classify(err) == classBusy {
				break
			}
			if err == nil || !again(ctx, s.d.classify(err), try) || pause(ctx, try) != nil {
				return n, nil, err
			}
		}
	}
	err = s.retryTx(ctx, func(tx dbTx) (err error) {
		n, busy, err = s.deleteFree(ctx, tx, keys)
		return err
	})
	return n, busy, err
}

func (s *Store) deleteQuery(keys []model.RowKey) (query string, args []any) {
	cond, args := s.d.inKeys("m.", keys)
	return s.d.bind("DELETE " + s.rowsToDelete() + " WHERE " + cond), args
}

// deleteFree deletes the rows that nobody holds locked and returns the ids of the others.
func (s *Store) deleteFree(ctx context.Context, tx dbTx, keys []model.RowKey) (n int, busy []string, err error) {
	free, err := s.selectKeys(ctx, tx, keys, " ORDER BY id"+s.d.skipLocked)
	if err != nil {
		return 0, nil, err
	}
	rest := keys
	if len(free) > 0 {
		var theirs []model.RowKey
		theirs, rest = partKeys(keys, free)
		query, args := s.deleteQuery(theirs)
		n, err = affected(tx.ExecContext(ctx, query, args...))
		if err := changedAll(n, err, len(free)); err != nil {
			return 0, nil, err
		}
	}
	if len(rest) > 0 {
		// Locks nothing: what the first query passed over and this one sees is locked.
		busy, err = s.selectKeys(ctx, tx, rest, "")
	}
	return n, busy, err
}

// selectKeys returns the ids of at most 500 keys that have a row.
func (s *Store) selectKeys(ctx context.Context, tx dbTx, keys []model.RowKey, tail string) ([]string, error) {
	cond, args := s.d.inKeys("", keys)
	query := s.d.bind("SELECT id FROM " + s.sql.table + s.d.forceKey() + " WHERE " + cond + tail)
	rows, err := tx.QueryContext(ctx, query, args...)
	return collect(rows, err, func(r scanner, id *string) error { return r.Scan(id) })
}

// partKeys splits keys into those of the ids and the others.
func partKeys(keys []model.RowKey, ids []string) (of, others []model.RowKey) {
	known := make(map[string]bool, len(ids))
	for _, id := range ids {
		known[id] = true
	}
	for _, k := range keys {
		if known[k.ID] {
			of = append(of, k)
		} else {
			others = append(others, k)
		}
	}
	return of, others
}

// existing returns those of at most 500 ids that have a row. It locks nothing: of ids
// that a query with the same condition passed over, these are the locked ones.
func (s *Store) existing(ctx context.Context, tx dbTx, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	cond, args := s.d.in(ids)
	rows, err := tx.QueryContext(ctx, s.d.bind("SELECT id FROM "+s.sql.table+s.d.forceKey()+" WHERE id "+cond), args...)
	return collect(rows, err, func(r scanner, id *string) error { return r.Scan(id) })
}

// without returns the ids that are not among others.
func without(ids, others []string) []string {
	known := make(map[string]bool, len(others))
	for _, id := range others {
		known[id] = true
	}
	var out []string
	for _, id := range ids {
		if !known[id] {
			out = append(out, id)
		}
	}
	return out
}

// inParts calls do for the sorted keys, each once and at most 500 at a time, until an error, and
// returns the sum of its results.
func inParts(keys []model.RowKey, do func(part []model.RowKey) (int, error)) (int, error) {
	sorted := slices.Clone(keys)
	slices.SortFunc(sorted, func(a, b model.RowKey) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Epoch, b.Epoch))
	})
	sorted = slices.Compact(sorted)
	total := 0
	for part := range slices.Chunk(sorted, maxRows) {
		n, err := do(part)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// rowsToDelete is what follows DELETE, with the table as m. Add a condition on a column that
// is not the key: with the key alone MariaDB takes a scan of the whole primary key for a use
// of it that the hint allows, and waits for everybody's locks.
func (s *Store) rowsToDelete() string {
	if s.d.name == dialectMySQL {
		// Only the joined form takes an index hint.
		return "FROM m USING " + s.sql.table + " AS m" + s.d.forceKey()
	}
	return "FROM " + s.sql.table + " AS m"
}

// execOwn runs one statement by itself, and again when rivals undid it, and returns the
// number of rows it changed.
func (s *Store) execOwn(ctx context.Context, op, query string, args []any) (int, error) {
	query = s.d.bind(query)
	if s.txOptions() != nil {
		var n int
		err := s.inTx(ctx, op, func(tx dbTx) (err error) {
			n, err = affected(tx.ExecContext(ctx, query, args...))
			return err
		})
		return n, err
	}
	for try := 1; ; try++ {
		n, err := affected(s.db.ExecContext(ctx, query, args...))
		if err == nil || !again(ctx, s.d.classify(err), try) || pause(ctx, try) != nil {
			return n, s.wrap(op, err)
		}
	}
}

func affected(res sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}
