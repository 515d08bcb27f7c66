package gormstore

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strconv"

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
	n, err := s.byEpoch(keys, func(ids []string, epoch int) (int, error) {
		n, busy, err := s.deleteIDs(ctx, ids, epoch)
		held = append(held, busy...)
		return n, err
	})
	if err == nil && len(held) > 0 {
		err = &model.BusyError{IDs: held}
	}
	return n, s.wrap("delete", err)
}

// deleteIDs hopes that no row is locked: then it is one statement.
func (s *Store) deleteIDs(ctx context.Context, ids []string, epoch int) (n int, busy []string, err error) {
	if s.own {
		cond, args := s.d.in(ids)
		query := s.d.bind("DELETE " + s.rowsToDelete() + " WHERE m.id " + cond + " AND m.epoch = ?")
		for try := 1; ; try++ {
			n, err := affected(s.db.ExecContext(ctx, query, append(args, epoch)...))
			if classify(err) == classBusy {
				break
			}
			if err == nil || !again(ctx, classify(err), try) || pause(ctx, try) != nil {
				return n, nil, err
			}
		}
	}
	err = s.retryTx(ctx, func(tx dbTx) (err error) {
		n, busy, err = s.deleteFree(ctx, tx, ids, epoch)
		return err
	})
	return n, busy, err
}

// deleteFree deletes the rows that nobody holds locked and returns the ids of the others.
func (s *Store) deleteFree(
	ctx context.Context, tx dbTx, ids []string, epoch int,
) (n int, busy []string, err error) {
	cond, args := s.d.in(ids)
	rows, err := tx.QueryContext(ctx, s.d.bind("SELECT id FROM "+s.sql.table+s.d.forceKey()+" WHERE id "+cond+
		" AND epoch = ? ORDER BY id"+s.d.skipLocked), append(args, epoch)...)
	free, err := collect(rows, err, func(r scanner, id *string) error { return r.Scan(id) })
	if err != nil {
		return 0, nil, err
	}
	if len(free) > 0 {
		cond, args := s.d.in(free)
		n, err = affected(tx.ExecContext(ctx, s.d.bind("DELETE "+s.rowsToDelete()+" WHERE m.id "+cond+
			" AND m.epoch = ?"), append(args, epoch)...))
		if err := changedAll(n, err, len(free)); err != nil {
			return 0, nil, err
		}
	}
	busy, err = s.existing(ctx, tx, without(ids, free), " AND epoch = "+strconv.Itoa(epoch))
	return n, busy, err
}

// existing returns those of at most 500 ids that have a row. It locks nothing: of ids
// that a query with the same condition passed over, these are the locked ones.
func (s *Store) existing(ctx context.Context, tx dbTx, ids []string, also string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	cond, args := s.d.in(ids)
	rows, err := tx.QueryContext(ctx, s.d.bind("SELECT id FROM "+s.sql.table+s.d.forceKey()+" WHERE id "+cond+also),
		args...)
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

// byEpoch calls do for the sorted ids of each epoch, at most 500 at a time, until an
// error, and returns the sum of its results.
func (s *Store) byEpoch(keys []model.RowKey, do func(ids []string, epoch int) (int, error)) (int, error) {
	sorted := slices.Clone(keys)
	slices.SortFunc(sorted, func(a, b model.RowKey) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.ID, b.ID))
	})
	total := 0
	ids := make([]string, 0, min(len(sorted), maxRows))
	for i := 0; i < len(sorted); {
		epoch := sorted[i].Epoch
		ids = ids[:0]
		for ; i < len(sorted) && len(ids) < maxRows && sorted[i].Epoch == epoch; i++ {
			ids = append(ids, sorted[i].ID)
		}
		n, err := do(ids, epoch)
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
		if err == nil || !again(ctx, classify(err), try) || pause(ctx, try) != nil {
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
