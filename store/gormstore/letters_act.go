package gormstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/transmsg/transmsg/model"
)

// neverAt is when an alert is due that is not owed.
const neverAt = "9007199254740991"

// DiscardLetters says of dead letters that wait, OPEN or PARKED ones, that they must not be handled any more. They
// stay, with their content, and a "discard" event tells actor, reason and selection.
//
// Like [Store.Discard] it works in batches, each committed by itself, and looks at every letter again under its lock:
// of two calls at the same time each letter is discarded, and counted, by one. It returns the number, also with an
// error: they are committed.
func (s *Store) DiscardLetters(ctx context.Context, a model.LetterAct) (int, error) {
	if err := waitingAlone(&a); err != nil {
		return 0, fmt.Errorf("gormstore: discard dead letters: %w", err)
	}
	return s.actLetters(ctx, "discard dead letters", a,
		func(tx dbTx, a *model.LetterAct, ids []string, _ int) (int, error) {
			return s.changeLetters(ctx, tx, a, ids, letterChange{
				event: model.EventDiscard, set: "status = 'DISCARDED', alert_at = " + neverAt + ", claimed_by = ''",
			})
		})
}

// EraseLetters removes the content of dead letters for good: body, properties, headers, what the consumer said, and the
// original of an edited one. What is left is the trail: ids, names, cause, times and history. What waited is DISCARDED.
// Letters whose replay is still stored as a message are passed over, since that has the body too. Batches, concurrency
// and result are as in [Store.DiscardLetters].
func (s *Store) EraseLetters(ctx context.Context, a model.LetterAct) (int, error) {
	return s.actLetters(ctx, "erase dead letters", a,
		func(tx dbTx, a *model.LetterAct, ids []string, _ int) (int, error) {
			return s.changeLetters(ctx, tx, a, ids, letterChange{
				event: model.EventErase,
				set: "status = CASE WHEN status IN ('OPEN','PARKED') THEN 'DISCARDED' ELSE status END, payload = " +
					s.d.empty() + ", properties = " + s.d.empty() + ", original_properties = NULL, " +
					"original_payload = NULL, size = 0, error = '', " +
					"unreplayable = 'its content was erased', erased_at = " + s.d.now +
					", epoch = epoch+1, alert_at = " + neverAt + ", claimed_by = ''",
				also: " AND erased_at = 0 AND NOT EXISTS (SELECT 1 FROM " + s.sql.table + " m WHERE m.id = replay_id)",
			})
		})
}

// empty is the literal of no bytes.
func (d *dialect) empty() string {
	if d.name == dialectSQLite {
		return "x''"
	}
	return "''"
}

// waitingAlone restricts an act to letters that wait, or says why that cannot be.
func waitingAlone(a *model.LetterAct) error {
	if _, err := a.LetterSelection.WithDefaults(); err != nil { // before the filter names all that wait
		return err
	}
	switch a.Filter.Status {
	case "", model.LetterOpen, model.LetterParked:
		a.Filter.Waiting = true
		return nil
	default:
		return fmt.Errorf("only OPEN and PARKED dead letters wait, got status %s", a.Filter.Status)
	}
}

// letterChange is what one kind of act does to locked letters.
type letterChange struct{ event, set, also string }

func (s *Store) changeLetters(
	ctx context.Context, tx dbTx, a *model.LetterAct, ids []string, c letterChange,
) (int, error) {
	found, err := s.lockLetters(ctx, tx, ids, a.Filter, c.also)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	locked := make([]string, len(found))
	for i := range found {
		locked[i] = found[i].ID
	}
	cond, args := s.d.in(locked)
	n, err := affected(tx.ExecContext(ctx, s.d.bind("UPDATE "+s.sql.letters+" SET "+c.set+", version = version+1, "+
		"updated_at = "+s.d.now+" WHERE id "+cond), args...))
	if err := changedAll(n, err, len(found)); err != nil {
		return 0, err
	}
	return len(found), s.letterEvents(ctx, tx, c.event, a.Actor, found, func(int) string { return a.Text() })
}

// letterEvents writes one line of history for each of the letters.
func (s *Store) letterEvents(
	ctx context.Context, tx dbTx, kind, actor string, letters []model.DeadLetter, text func(i int) string,
) error {
	events := make([]model.Event, len(letters))
	for i := range letters {
		l := &letters[i]
		events[i] = model.Event{
			RowID: l.ID, Kind: kind, Code: l.Code(), Text: text(i), Attempts: l.Attempts, Actor: actor,
			Epoch: l.Epoch,
		}
	}
	return s.insertEvents(ctx, tx, events)
}

// actLetters picks the letters and hands them to do, one transaction for each batch.
func (s *Store) actLetters(
	ctx context.Context, op string, a model.LetterAct,
	do func(tx dbTx, a *model.LetterAct, ids []string, done int) (int, error),
) (int, error) {
	sel, err := a.LetterSelection.WithDefaults()
	err = errors.Join(err, checkActor(a.Actor))
	if err != nil {
		return 0, fmt.Errorf("gormstore: %s: %w", op, err)
	}
	a.LetterSelection = sel
	list, _, err := s.pickLetters(ctx, sel, 0)
	if err != nil {
		return 0, s.wrap(op, err)
	}
	total := 0
	for len(list) > 0 {
		part := list[:letterPart(list)]
		n := 0
		err := s.inTx(ctx, op, func(tx dbTx) (err error) {
			n, err = do(tx, &a, letterIDs(part), total)
			return err
		})
		if err != nil {
			return total, err
		}
		total, list = total+n, list[len(part):]
		if a.Progress != nil {
			a.Progress(total)
		}
	}
	return total, nil
}

// letterPart is how many of the letters one transaction takes: their content is read.
func letterPart(list []letterCandidate) int {
	n, size := 0, int64(0)
	for n < len(list) && n < maxRows {
		if size += list[n].size; n > 0 && size > exportBytes {
			break
		}
		n++
	}
	return n
}
