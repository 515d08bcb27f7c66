package gormstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/transmsg/transmsg/model"
)

// ReplayLetters sends dead letters back that wait, OPEN or PARKED ones. In one transaction the letter becomes REPLAYED
// and the READY row of [model.Replay.Row] is inserted: from there it is a message of the outbox. Two events tell actor,
// reason and selection: "replay" of the letter, and of the row which letter it is from. What cannot be sent again as it
// is is passed over; what cannot in the way that was asked for is returned as refused and waits on.
//
// Batches and concurrency are as in [Store.DiscardLetters]: each letter is looked at again under its lock, so that of
// two calls at the same time one inserts its row, and counts it. A letter that is REPLAYED is sent again only after an
// edit. n letters were sent back, also with an error: they are committed.
func (s *Store) ReplayLetters(
	ctx context.Context, a model.LetterAct, r model.LetterReplay,
) (n int, refused []model.LetterRefusal, err error) {
	err = checkRate(r.Rate)
	if err == nil {
		err = waitingAlone(&a)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("gormstore: replay dead letters: %w", err)
	}
	a.Filter.Replayable = true
	n, err = s.actLetters(ctx, "replay dead letters", a,
		func(tx dbTx, a *model.LetterAct, ids []string, done int) (int, error) {
			sent, not, err := s.replayTx(ctx, tx, a, ids, done, r)
			if err == nil {
				refused = append(refused, not...)
			}
			return sent, err
		})
	return n, refused, err
}

// replayTx sends back what still waits of the ids. The first of them is the done-th of its call.
func (s *Store) replayTx(
	ctx context.Context, tx dbTx, a *model.LetterAct, ids []string, done int, r model.LetterReplay,
) (int, []model.LetterRefusal, error) {
	found, err := s.lockLetters(ctx, tx, ids, a.Filter, "")
	if err != nil {
		return 0, nil, err
	}
	var refused []model.LetterRefusal
	letters := make([]model.DeadLetter, 0, len(found))
	rows := make([]*model.Draft, 0, len(found))
	for i := range found {
		row, err := r.Row(&found[i])
		if err != nil {
			refused = append(refused, model.LetterRefusal{ID: found[i].ID, Why: err.Error()})
			continue
		}
		d := &model.Draft{TransMessage: row}
		if r.Rate > 0 {
			d.Delay = spread(done+len(rows), r.Rate)
		}
		letters, rows = append(letters, found[i]), append(rows, d)
	}
	if len(rows) == 0 {
		return 0, refused, nil
	}
	if err := s.insertReplays(ctx, tx, rows); err != nil {
		return 0, nil, err
	}
	if err := s.markReplayed(ctx, tx, letters, rows); err != nil {
		return 0, nil, err
	}
	return len(rows), refused, s.replayEvents(ctx, tx, a, letters, rows)
}

// insertReplays inserts the READY rows, within the bounds of a statement.
func (s *Store) insertReplays(ctx context.Context, tx dbTx, rows []*model.Draft) error {
	for len(rows) > 0 {
		part := rows[:s.chunk(rows)]
		var args []any
		for _, r := range part {
			args = appendRowArgs(args, r)
		}
		tuples := strings.Repeat(insertTuple(s.d)+",", len(part))
		n, err := affected(tx.ExecContext(ctx, s.d.bind("INSERT INTO "+s.sql.table+" ("+insertColumns+") VALUES "+
			tuples[:len(tuples)-1]), args...))
		if err := changedAll(n, err, len(part)); err != nil {
			return err
		}
		rows = rows[len(part):]
	}
	return nil
}

// markReplayed notes on locked letters as what they were sent back.
func (s *Store) markReplayed(ctx context.Context, tx dbTx, letters []model.DeadLetter, rows []*model.Draft) error {
	ids := make([]string, len(letters))
	var args []any
	var as strings.Builder
	as.WriteString("CASE id")
	for i := range letters {
		ids[i] = letters[i].ID
		as.WriteString(" WHEN ? THEN ?")
		args = append(args, ids[i], rows[i].ID)
	}
	as.WriteString(" ELSE replay_id END")
	cond, args := s.d.in(ids, args...)
	n, err := affected(tx.ExecContext(ctx, s.d.bind("UPDATE "+s.sql.letters+" SET status = 'REPLAYED', replay_id = "+
		as.String()+", replayed_at = "+s.d.now+", updated_at = "+s.d.now+", version = version+1, claimed_by = '', "+
		"alert_at = "+neverAt+" WHERE id "+cond+" AND status IN ('OPEN','PARKED')"), args...))
	return changedAll(n, err, len(letters))
}

// replayEvents writes two lines for each letter: its own, and the first of its row.
func (s *Store) replayEvents(
	ctx context.Context, tx dbTx, a *model.LetterAct, letters []model.DeadLetter, rows []*model.Draft,
) error {
	text := a.Text()
	err := s.letterEvents(ctx, tx, model.EventReplay, a.Actor, letters, func(i int) string {
		return "as message " + rows[i].ID + ": " + text
	})
	if err != nil {
		return err
	}
	events := make([]model.Event, len(rows))
	for i := range rows {
		events[i] = model.Event{
			RowID: rows[i].ID, Kind: model.EventReplay, Actor: a.Actor,
			Text: "of dead letter " + letters[i].ID + ": " + text,
		}
	}
	return s.insertEvents(ctx, tx, events)
}
