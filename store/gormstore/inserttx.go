package gormstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/transmsg/transmsg/model"
)

// InsertTx stores the rows through the caller's handle, with one INSERT unless they are
// above the bounds of a statement (on SQLite one for each row), and says for each what it
// found, as Insert does. Here the rows beside one that is StoredOther or StoredDead are stored
// all the same, in the caller's transaction.
//
// An id that exists already leaves the transaction usable: on MySQL InnoDB undoes the statement
// alone (1062), and on PostgreSQL and SQLite, where an error would abort the transaction, the
// INSERT passes over existing ids. The handle only executes, and its user may not read bodies:
// so the store reads the existing row by a connection of its own. What that cannot see, since
// this very transaction has stored it, own knows by its id; own may be nil. A row that is gone by
// then is stored again. On SQLite, which knows no users, the handle itself reads, if it can.
//
// Errors of the handle come back unchanged: roll the transaction back on any of them.
//
// On MySQL and MariaDB a deadlock has rolled the whole transaction back and left the
// connection in autocommit: a row inserted after it would stay whatever the caller does.
// InsertTx refuses that with an error that says so; see txguard.go.
func (s *Store) InsertTx(
	ctx context.Context, x model.Execer, rows []model.Draft, own func(id string) *model.TransMessage,
) ([]model.Stored, error) {
	if err := s.requireTx(ctx, x); err != nil {
		return nil, err
	}
	drafts, found := make([]*model.Draft, len(rows)), make([]model.Stored, len(rows))
	for i := range rows {
		drafts[i] = &rows[i]
	}
	for from := 0; from < len(rows); {
		to := from + 1
		if s.d.name != dialectSQLite { // where all read what they write, and a look must not find these
			to = from + s.chunk(drafts[from:])
		}
		part := &txInsert{s: s, x: x, own: own, rows: drafts[from:to], found: found[from:to]}
		if err := part.run(ctx); err != nil {
			return nil, err
		}
		from = to
	}
	return found, nil
}

// txInsert stores rows by one statement through a caller's handle, or by more where ids exist.
type txInsert struct {
	s     *Store
	x     model.Execer
	own   func(id string) *model.TransMessage
	rows  []*model.Draft
	found []model.Stored // a result per row; zero means not known yet
}

// run repeats the INSERT of the rows that have no result until all have one. Of a statement that
// stored some of its rows the count alone is known: those are the ones that no look finds.
func (t *txInsert) run(ctx context.Context) error {
	for in, try := 0, 1; ; try++ {
		n, exists, err := t.insert(ctx)
		if err != nil {
			return err
		}
		if in += n; in == len(t.open()) {
			t.rest()
			return nil
		}
		if try > insertTries {
			return errors.Join(errUnseen, exists)
		}
		if err := t.look(ctx); err != nil {
			return fmt.Errorf("read what is stored under the ids: %w", errors.Join(err, exists))
		}
		if in == len(t.open()) {
			t.rest()
			return nil
		}
		if try > 1 {
			if err := pause(ctx, try); err != nil {
				return errors.Join(err, exists)
			}
		}
	}
}

var errUnseen = errors.New("an id exists, and the row that has it cannot be seen: it is this transaction's, " +
	"stored by other means or another Tx, or reads go to a replica")

// open are the rows without a result.
func (t *txInsert) open() (rows []*model.Draft) {
	for i, r := range t.rows {
		if t.found[i] == 0 {
			rows = append(rows, r)
		}
	}
	return rows
}

// rest gives the rows without a result theirs: they are stored.
func (t *txInsert) rest() {
	for i, f := range t.found {
		if f == 0 {
			t.found[i] = model.StoredNew
		}
	}
}

// insert returns how many rows it stored. A duplicate key is no error, but exists.
func (t *txInsert) insert(ctx context.Context) (stored int, exists, err error) {
	query, args := t.s.insertTxStatement(t.open())
	stored, err = affected(t.x.ExecContext(ctx, query, args...))
	if err = t.s.explainTx(err); err != nil && t.s.d.classify(err) == classDuplicate && !errors.Is(err, errNoTx) {
		return 0, err, nil
	}
	return stored, nil, err
}

// look gives the rows that exist, and that this call did not store, their result.
func (t *txInsert) look(ctx context.Context) (err error) {
	rows := t.open()
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	ctx, cancel := context.WithTimeout(ctx, t.s.opt.InsertTimeout)
	defer cancel()
	var existing map[string]*model.TransMessage
	if q, ok := t.x.(querier); ok && t.s.d.name == dialectSQLite {
		existing, err = t.s.readContent(ctx, q, ids, "")
	} else {
		existing, err = t.s.committed(ctx, ids)
	}
	if err != nil {
		return err
	}
	for i, r := range t.rows {
		if t.found[i] != 0 {
			continue
		}
		have := existing[r.ID]
		if have == nil && t.own != nil {
			have = t.own(r.ID)
		}
		t.found[i] = match(have, &r.TransMessage)
	}
	return nil
}
