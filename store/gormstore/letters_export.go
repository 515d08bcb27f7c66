package gormstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/transmsg/transmsg/model"
)

// ExportLetters calls do with every dead letter of the selection, content included and byte for byte, and stops at its
// first error. Letters that are gone or do not match any more when their turn comes are left out. do may call the
// store.
func (s *Store) ExportLetters(ctx context.Context, sel model.LetterSelection, do func(model.DeadLetter) error) error {
	sel, err := sel.WithDefaults()
	if err != nil {
		return fmt.Errorf("gormstore: export dead letters: %w", err)
	}
	list, _, err := s.pickLetters(ctx, sel, 0)
	if err != nil {
		return s.wrap("export dead letters", err)
	}
	for len(list) > 0 {
		n := letterPart(list)
		cond, args := s.d.in(letterIDs(list[:n]))
		conds, args := s.matchingLetters(sel.Filter, args...)
		rows, err := s.db.QueryContext(ctx, s.d.bind("SELECT "+letterColumns+" FROM "+s.sql.letters+" WHERE id "+cond+
			conds+" ORDER BY id"), args...)
		letters, err := collect(rows, err, scanLetter)
		if err != nil {
			return s.wrap("export dead letters", err)
		}
		for i := range letters {
			if err := do(letters[i]); err != nil {
				return err
			}
		}
		list = list[n:]
	}
	return nil
}

// ImportLetters stores exported dead letters again, byte for byte and with their status, counts and times, and writes
// an "import" event for each. Alerts of those that wait are owed anew. Letters that exist with equal content are passed
// over, so a repeat is harmless; one that exists with other content is a [*model.StoreError] of kind
// [model.ErrConflict]. Batches are committed one by one: n letters were stored, also with an error.
func (s *Store) ImportLetters(ctx context.Context, letters []model.DeadLetter, actor string) (n int, err error) {
	if err := checkActor(actor); err != nil {
		return 0, fmt.Errorf("gormstore: import dead letters: %w", err)
	}
	for i := range letters {
		if err := s.checkLetter(&letters[i]); err != nil {
			return 0, fmt.Errorf("gormstore: import dead letters: letter %d: id %.80q: %w", i, letters[i].ID, err)
		}
	}
	for len(letters) > 0 {
		part, stored := letters[:s.letterChunk(letters)], 0
		err := s.inTx(ctx, "import dead letters", func(tx dbTx) (err error) {
			stored, err = s.importLettersTx(ctx, tx, part, actor)
			return err
		})
		if err != nil {
			return n, err
		}
		n, letters = n+stored, letters[len(part):]
	}
	return n, nil
}

func (s *Store) checkLetter(l *model.DeadLetter) error {
	switch {
	case len(l.ID) < 1 || len(l.ID) > 36:
		return fmt.Errorf("the id must have 1 to 36 bytes")
	case !slices.Contains(model.LetterStatuses(), l.Status):
		return fmt.Errorf("status %.20q must be one of %v", l.Status, model.LetterStatuses())
	case l.CreatedAt <= 0:
		return fmt.Errorf("created at %d must be positive", l.CreatedAt)
	case l.Size > s.maxBody:
		return fmt.Errorf("%d bytes are above %d, a quarter of the server's max_allowed_packet", l.Size, s.maxBody)
	}
	return nil
}

func (s *Store) importLettersTx(
	ctx context.Context, tx dbTx, letters []model.DeadLetter, actor string,
) (int, error) {
	ids := make([]string, len(letters))
	for i := range letters {
		ids[i] = letters[i].ID
	}
	have, err := s.lockLetters(ctx, tx, ids, model.LetterFilter{}, "")
	if err != nil {
		return 0, err
	}
	byID := make(map[string]*model.DeadLetter, len(have))
	for i := range have {
		byID[have[i].ID] = &have[i]
	}
	var stored []model.DeadLetter
	for i := range letters {
		l := &letters[i]
		if h := byID[l.ID]; h != nil {
			if !bytes.Equal(h.WireID, l.WireID) || !bytes.Equal(h.Properties, l.Properties) ||
				!bytes.Equal(h.Payload, l.Payload) {
				return 0, &model.StoreError{Kind: model.ErrConflict, IDs: []string{l.ID}}
			}
			continue
		}
		byID[l.ID] = l // a repeat within the call
		if err := s.insertLetter(ctx, tx, l); err != nil {
			return 0, err
		}
		stored = append(stored, *l)
	}
	return len(stored), s.letterEvents(ctx, tx, model.EventImport, actor, stored, func(int) string { return "" })
}

// insertLetter stores an exported letter as it was, but for claim and alert.
func (s *Store) insertLetter(ctx context.Context, tx dbTx, l *model.DeadLetter) error {
	var oldProperties, oldPayload any
	if l.Original != nil {
		oldProperties, oldPayload = blob(l.Original.Properties), blob(l.Original.Payload)
	}
	alertAt := neverAt
	if l.Status == model.LetterOpen || l.Status == model.LetterParked {
		alertAt = s.d.now
	}
	args := append(appendLetterArgs(nil, l), l.Version, l.CreatedAt, l.UpdatedAt, l.ReplayedAt, l.ReplayID, l.ErasedAt,
		oldProperties, oldPayload)
	_, err := tx.ExecContext(ctx, s.d.bind("INSERT INTO "+s.sql.letters+" ("+letterInsertColumns+
		", version, created_at, "+
		"updated_at, replayed_at, replay_id, erased_at, original_properties, original_payload, alert_at) VALUES ("+
		strings.Repeat("?,", len(args))+alertAt+")"), args...)
	return err
}
