package gormstore

import (
	"context"
	"strings"

	"github.com/transmsg/transmsg/model"
)

// InsertTx stores the rows through the caller's handle, with one INSERT unless they are
// above the bounds of a statement. Nothing is retried and nothing is read. The handle's
// errors come back unchanged: roll the transaction back on any of them.
//
// An id that exists already: on MySQL the driver's duplicate key error (1062) comes back,
// and InnoDB has undone that statement alone. On PostgreSQL and SQLite, where an error
// would abort the caller's transaction, the INSERT passes over existing ids, and a
// [*model.StoreError] of kind [model.ErrConflict] says so: a handle that only executes
// cannot tell equal content from other content. Its ids are those of the statement
// concerned; the caller must roll back, since the others of it are stored.
//
// On MySQL and MariaDB a deadlock has rolled the whole transaction back and left the
// connection in autocommit: a row inserted after it would stay whatever the caller does.
// InsertTx refuses that with an error that says so; see txguard.go.
func (s *Store) InsertTx(ctx context.Context, x model.Execer, rows []model.Draft) error {
	if err := s.requireTx(ctx, x); err != nil {
		return err
	}
	drafts := make([]*model.Draft, len(rows))
	for i := range rows {
		drafts[i] = &rows[i]
	}
	for len(drafts) > 0 {
		n := s.chunk(drafts)
		args := make([]any, 0, n*insertParams)
		for _, r := range drafts[:n] {
			args = appendRowArgs(args, r)
		}
		res, err := x.ExecContext(ctx, s.insertTxText(n), args...)
		if err != nil {
			return s.explainTx(err)
		}
		if stored, err := res.RowsAffected(); err != nil {
			return err
		} else if stored < int64(n) {
			ids := make([]string, n)
			for i, r := range drafts[:n] {
				ids[i] = r.ID
			}
			return &model.StoreError{Kind: model.ErrConflict, IDs: ids}
		}
		drafts = drafts[n:]
	}
	return nil
}

// insertTxText is portable over drivers: no arrays, which lib/pq would refuse.
func (s *Store) insertTxText(n int) string {
	if s.d.name == dialectMySQL {
		// The caller's user may insert and no more: to refer to a column is to SELECT it.
		return s.guardTx(strings.ReplaceAll(s.sql.insertText(s.d, n), insertTuple(s.d), insertTupleOf(s.d.now, s.d)))
	}
	tuples := strings.Repeat(insertTuple(s.d)+",", n)
	return s.d.bind("INSERT INTO " + s.sql.table + " (" + insertColumns + ") VALUES " +
		tuples[:len(tuples)-1] + " ON CONFLICT (id) DO NOTHING")
}
