package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/transmsg/transmsg/model"
)

// Restore inserts rows again that Settle found gone although they are not known to be
// delivered, such as one that was returned after another send's ack deleted it. The
// settlement with the same index is applied to the row, and its event and a "restore"
// event are written. A row is left out, and reported false, when its history since it
// was stored says that an operator discarded it, or when a row with its id exists.
// Either all of the rest are restored or, on an error, none.
func (s *Store) Restore(ctx context.Context, rows []model.TransMessage, list []model.Settlement) ([]bool, error) {
	if len(rows) != len(list) {
		return nil, errors.New("gormstore: restore: rows and settlements differ in number")
	}
	var out []bool
	err := s.inTx(ctx, "restore", func(tx *sql.Tx) (err error) {
		out, err = s.restoreTx(ctx, tx, rows, list)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Store) restoreTx(
	ctx context.Context, tx *sql.Tx, rows []model.TransMessage, list []model.Settlement,
) ([]bool, error) {
	out := make([]bool, len(rows))
	var events []model.Event
	for i := range rows {
		t, m := &rows[i], &list[i]
		var blocked int
		err := tx.QueryRowContext(ctx, s.d.bind("SELECT (SELECT COUNT(*) FROM "+s.sql.table+" WHERE id = ?)"+
			" + (SELECT COUNT(*) FROM "+s.sql.events+" WHERE row_id = ? AND kind = ? AND at >= ?)"),
			t.ID, t.ID, model.EventDiscard, t.CreatedAt).Scan(&blocked)
		if err != nil {
			return nil, err
		}
		if blocked > 0 {
			continue
		}
		if err := s.insertRestored(ctx, tx, t, m); err != nil {
			return nil, err
		}
		out[i] = true
		attempts := t.Attempts + m.AttemptsDelta
		if m.Outcome.Kind != model.Deferred {
			events = append(events, settleEvent(m, attempts))
		}
		events = append(events, model.Event{
			RowID: t.ID, Kind: model.EventRestore, Code: m.Outcome.Code, Attempts: attempts, Instance: m.Instance,
		})
	}
	return out, s.insertEvents(ctx, tx, events)
}

// insertRestored inserts one row as the settlement leaves it. A row that appears at the
// same time is a duplicate key, and the transaction runs again and finds it.
func (s *Store) insertRestored(ctx context.Context, tx *sql.Tx, t *model.TransMessage, m *model.Settlement) error {
	code, text := m.Outcome.Code, m.Outcome.Text
	if m.Outcome.Kind == model.Deferred {
		code, text = t.LastCode, t.LastError
	}
	created, args := s.d.now, []any{
		t.ID, t.Service, string(m.Status), delayMS(m.Delay), t.Attempts + m.AttemptsDelta,
		t.Failures + m.FailuresDelta, m.Version + 1, t.Epoch, t.MessageKey, t.Exchange, t.RoutingKey,
		blob(t.Properties), blob(t.Payload), t.Size, string(code), model.CleanText(text), t.ReplayedAt,
	}
	if t.CreatedAt > 0 {
		created, args = "?", append(args, t.CreatedAt)
	}
	values := strings.Replace(placeholders(17), "?,?,?,?,", "?,?,?,"+s.d.now+"+?,", 1)
	_, err := tx.ExecContext(ctx, s.d.bind("INSERT INTO "+s.sql.table+" (id, service, status, next_attempt_at, "+
		"attempts, failures, version, epoch, message_key, exchange, routing_key, properties, payload, size, "+
		"last_code, last_error, replayed_at, created_at, updated_at) VALUES ("+values+","+created+","+s.d.now+")"), args...)
	return err
}
