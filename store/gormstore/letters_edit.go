package gormstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/transmsg/transmsg/model"
)

// EditLetter corrects the content of a dead letter and keeps the original beside it. A letter that was sent back, or
// discarded, waits again then, so that it can be sent back once more. An "edit" event tells actor, reason and the names
// of the fields.
//
// Errors: [model.ErrNotFound], [model.ErrChanged], and those of [model.LetterEdit.Apply]; nothing is changed then.
func (s *Store) EditLetter(ctx context.Context, id string, e model.LetterEdit) error {
	if err := checkActor(e.Actor); err != nil {
		return fmt.Errorf("gormstore: edit dead letter: %w", err)
	}
	return s.inTx(ctx, "edit dead letter", func(tx dbTx) error { return s.editLetterTx(ctx, tx, id, &e) })
}

func (s *Store) editLetterTx(ctx context.Context, tx dbTx, id string, e *model.LetterEdit) error {
	found, err := s.lockLetters(ctx, tx, []string{id}, model.LetterFilter{}, "")
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return fmt.Errorf("id %.80q: %w", id, model.ErrNotFound)
	}
	l := found[0]
	if e.Epoch != nil && *e.Epoch != l.Epoch { // of two edits the second sees the first
		return fmt.Errorf("id %s: %w (epoch %d, it was %d)", l.ID, model.ErrChanged, l.Epoch, *e.Epoch)
	}
	if err := e.Apply(&l); err != nil {
		return err
	}
	if l.Size > s.maxBody || len(l.Payload)+len(l.Original.Payload) > 3*s.maxBody {
		return &model.InvalidError{
			Field: "body",
			Reason: fmt.Sprintf("and properties have %d bytes, above %d, a quarter "+
				"of the server's max_allowed_packet", l.Size, s.maxBody), Index: -1,
		}
	}
	n, err := affected(tx.ExecContext(ctx, s.d.bind("UPDATE "+s.sql.letters+" SET status = ?, properties = ?, "+
		"payload = ?, original_properties = ?, original_payload = ?, size = ?, unreplayable = ?, epoch = epoch+1, "+
		"version = version+1, updated_at = "+s.d.now+" WHERE id = ? AND version = ?"),
		string(l.Status), blob(l.Properties), blob(l.Payload), blob(l.Original.Properties), blob(l.Original.Payload),
		l.Size,
		l.Unreplayable, l.ID, l.Version))
	if err := changedAll(n, err, 1); err != nil {
		return err
	}
	l.Epoch++
	return s.letterEvents(ctx, tx, model.EventEdit, e.Actor, []model.DeadLetter{l}, func(int) string {
		return strings.TrimSpace(e.Reason + " [" + strings.Join(e.Changes(), " ") + "]")
	})
}
