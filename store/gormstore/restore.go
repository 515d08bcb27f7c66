package gormstore

import (
	"context"
	"errors"
	"math"
	"strings"

	"github.com/transmsg/transmsg/model"
)

// restoreRows bounds the rows of one transaction of Restore.
const restoreRows = 50

// Restore inserts rows again that Settle found gone although they are not known to be
// delivered, such as one that was returned after another send's ack deleted it. The
// settlement with the same index is applied to the row, and its event and a "restore"
// event are written. A row is left out, and reported false, when its history since it
// was stored says that an operator discarded it, or when a row with its id exists.
//
// Several small transactions are made: an error means that some may be restored, and a
// repeat leaves those alone. Rows whose ids somebody else holds locked are passed over and
// named by a [*model.BusyError]; the results of the others hold.
func (s *Store) Restore(ctx context.Context, rows []model.TransMessage, list []model.Settlement) ([]bool, error) {
	if len(rows) != len(list) {
		return nil, errors.New("gormstore: restore: rows and settlements differ in number")
	}
	out := make([]bool, len(rows))
	var held []string
	for at := 0; at < len(rows); {
		end := at + s.restoreCount(rows[at:])
		busy, err := s.restorePart(ctx, rows[at:end], list[at:end], out[at:end])
		if err != nil {
			return nil, s.wrap("restore", err)
		}
		held, at = append(held, busy...), end
	}
	if len(held) > 0 {
		return out, s.wrap("restore", &model.BusyError{IDs: held})
	}
	return out, nil
}

// restoreCount is how many of the first rows make one transaction.
func (s *Store) restoreCount(rows []model.TransMessage) int {
	size := 0
	for i := range rows {
		size += len(rows[i].Payload) + len(rows[i].Properties) + 1024
		if i > 0 && (i == restoreRows || size > s.batchBytes()) {
			return i
		}
	}
	return len(rows)
}

// restorePart restores rows in one transaction. Where it meets a lock it halves them, and
// returns the ids that are locked.
func (s *Store) restorePart(
	ctx context.Context, rows []model.TransMessage, list []model.Settlement, out []bool,
) (busy []string, err error) {
	for try := 1; ; try++ {
		var found []bool
		err := s.tryTx(ctx, func(tx dbTx) (err error) {
			found, err = s.restoreTx(ctx, tx, rows, list)
			return err
		})
		if err == nil {
			copy(out, found)
			return nil, nil
		}
		// A single row is tried twice: the table may have been locked and just become free.
		if s.d.classify(err) == classBusy && (len(rows) > 1 || try > 1) && !s.tableLocked(ctx) {
			break
		}
		if !again(ctx, s.d.classify(err), try) || pause(ctx, try) != nil {
			return nil, err
		}
	}
	if len(rows) == 1 {
		return []string{rows[0].ID}, nil
	}
	half := len(rows) / 2
	busy, err = s.restorePart(ctx, rows[:half], list[:half], out[:half])
	if err != nil {
		return nil, err
	}
	more, err := s.restorePart(ctx, rows[half:], list[half:], out[half:])
	return append(busy, more...), err
}

func (s *Store) restoreTx(
	ctx context.Context, tx dbTx, rows []model.TransMessage, list []model.Settlement,
) ([]bool, error) {
	blocked, err := s.blockers(ctx, tx, rows)
	if err != nil {
		return nil, err
	}
	out := make([]bool, len(rows))
	var texts []string
	var args []any
	var events []model.Event
	var exhausted []string
	for i := range rows {
		t, m := &rows[i], &list[i]
		if discarded, ok := blocked[t.ID]; ok && discarded >= t.CreatedAt {
			continue
		}
		blocked[t.ID] = math.MaxInt64 // a repeat within the call
		out[i] = true
		text, values := s.restoredTuple(t, m)
		texts, args = append(texts, text), append(args, values...)
		if m.Exhausted && m.Status == model.Ready {
			exhausted = append(exhausted, t.ID)
		}
		attempts := t.Attempts + m.AttemptsDelta
		if m.Outcome.Kind != model.Deferred {
			events = append(events, settleEvent(m, attempts))
		}
		events = append(events, model.Event{
			RowID: t.ID, Kind: model.EventRestore, Code: m.Outcome.Code, Attempts: attempts, Instance: m.Instance,
		})
	}
	if len(texts) == 0 {
		return out, nil
	}
	// A row that appears at the same time is a duplicate key: the transaction runs again
	// and finds it.
	_, err = tx.ExecContext(ctx, s.d.bind("INSERT INTO "+s.sql.table+" (id, service, status, next_attempt_at, "+
		"attempts, failures, version, epoch, message_key, exchange, routing_key, properties, payload, size, "+
		"last_code, last_error, replayed_at, closes, closes_since, not_before, first_failed_at, "+
		"created_at, updated_at) VALUES "+
		strings.Join(texts, ",")), args...)
	if err != nil {
		return nil, err
	}
	if err := s.oweAlerts(ctx, tx, model.AlertExhausted, exhausted); err != nil {
		return nil, err
	}
	return out, s.insertEvents(ctx, tx, events)
}

// blockers returns the ids that may have to stay away, with the time of their last
// discard, or the end of time where a row exists.
func (s *Store) blockers(ctx context.Context, tx dbTx, rows []model.TransMessage) (map[string]int64, error) {
	type blocker struct {
		id string
		at int64
	}
	ids := make([]string, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	ids = sortedIDs(ids)
	existing, err := s.existing(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	cond, args := s.d.in(ids)
	found, err := tx.QueryContext(ctx, s.d.bind("SELECT row_id, MAX(at) FROM "+s.sql.events+" WHERE row_id "+cond+
		" AND kind = ? GROUP BY row_id"), append(args, model.EventDiscard)...)
	discards, err := collect(found, err, func(r scanner, b *blocker) error { return r.Scan(&b.id, &b.at) })
	if err != nil {
		return nil, err
	}
	out := make(map[string]int64, len(rows))
	for _, b := range discards {
		out[b.id] = b.at
	}
	for _, id := range existing {
		out[id] = math.MaxInt64
	}
	return out, nil
}

// restoredTuple is one row as the settlement leaves it.
func (s *Store) restoredTuple(t *model.TransMessage, m *model.Settlement) (text string, args []any) {
	code, cause := m.Outcome.Code, m.Outcome.Text
	if m.Outcome.Kind == model.Deferred {
		code, cause = t.LastCode, t.LastError
	}
	created, failed, args := s.d.now, "?", []any{
		t.ID, t.Service, string(m.Status), delayMS(m.Delay), t.Attempts + m.AttemptsDelta,
		t.Failures + m.FailuresDelta, m.Version + 1, t.Epoch, t.MessageKey, t.Exchange, t.RoutingKey,
		blob(t.Properties), blob(t.Payload), t.Size, string(code), model.CleanText(cause), t.ReplayedAt,
		t.Closes, t.ClosesSince, t.NotBefore,
	}
	if m.AttemptsDelta > 0 && t.FirstFailedAt <= t.ReplayedAt {
		failed = s.d.now
	} else {
		args = append(args, t.FirstFailedAt)
	}
	if t.CreatedAt > 0 {
		created, args = "?", append(args, t.CreatedAt)
	}
	values := strings.Replace(placeholders(20), "?,?,?,?,", "?,?,?,"+s.d.now+"+?,", 1)
	return "(" + values + "," + failed + "," + created + "," + s.d.now + ")", args
}
