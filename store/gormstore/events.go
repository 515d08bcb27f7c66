package gormstore

import (
	"context"
	"strings"

	"github.com/transmsg/transmsg/model"
)

// insertEvents writes history lines, all at the database's now, within bounds.
func (s *Store) insertEvents(ctx context.Context, tx dbTx, events []model.Event) error {
	for len(events) > 0 {
		n := min(len(events), maxRows)
		tuple := "(?," + s.d.now + ",?,?,?,?,?,?,?),"
		text := strings.Repeat(tuple, n)
		args := make([]any, 0, 8*n)
		for i := range events[:n] {
			e := &events[i]
			args = append(args, e.RowID, e.Kind, string(e.Code), model.CleanText(e.Text), e.Attempts,
				e.Instance, e.Actor, e.Epoch)
		}
		_, err := tx.ExecContext(ctx, s.d.bind("INSERT INTO "+s.sql.events+
			" (row_id, at, kind, code, text, attempts, instance, actor, epoch) VALUES "+text[:len(text)-1]), args...)
		if err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// eventsOf reads the history of one row, oldest first.
func (s *Store) eventsOf(ctx context.Context, id string) ([]model.Event, error) {
	rows, err := s.db.QueryContext(ctx, s.d.bind("SELECT row_id, at, kind, code, text, attempts, instance, actor, "+
		"epoch FROM "+s.sql.events+" WHERE row_id = ? ORDER BY id"), id)
	return collect(rows, err, func(r scanner, e *model.Event) error {
		return r.Scan(&e.RowID, &e.At, &e.Kind, &e.Code, &e.Text, &e.Attempts, &e.Instance, &e.Actor, &e.Epoch)
	})
}
