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
func (s *Store) Delete(ctx context.Context, keys []model.RowKey) (int, error) {
	query := "DELETE " + s.rowsToDelete()
	return s.byEpoch(keys, func(ids []string, epoch int) (int, error) {
		cond, args := s.d.in(ids)
		return s.execOwn(ctx, "delete", query+" WHERE m.id "+cond+" AND m.epoch = ?", append(args, epoch))
	})
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

// rowsToDelete is what follows DELETE, with the table as m.
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
		err := s.inTx(ctx, op, func(tx *sql.Tx) (err error) {
			n, err = affected(tx.ExecContext(ctx, query, args...))
			return err
		})
		return n, err
	}
	for try := 1; ; try++ {
		n, err := affected(s.db.ExecContext(ctx, query, args...))
		if err == nil || classify(err) != classRetry || try == txTries || pause(ctx, try) != nil {
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
