package gormstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/transmsg/transmsg/model"
)

// Edit changes the message of a DEAD row, or of a READY one that is not being sent, and
// leaves its status alone: replay a corrected DEAD row. Epoch and version grow, so that
// no late result of an earlier send touches the corrected row, and an "edit" event tells
// actor, reason and the names of the fields.
//
// Errors: [model.ErrNotFound], [model.ErrChanged], [model.ErrLeased], and those of
// [model.Edit.Apply]; the row is unchanged then.
func (s *Store) Edit(ctx context.Context, id string, e model.Edit) error {
	if err := checkActor(e.Actor); err != nil {
		return fmt.Errorf("gormstore: edit: %w", err)
	}
	return s.inTx(ctx, "edit", func(tx dbTx) error { return s.editTx(ctx, tx, id, &e) })
}

func (s *Store) editTx(ctx context.Context, tx dbTx, id string, e *model.Edit) error {
	var t model.TransMessage
	var leased bool
	err := scanRow(tx.QueryRowContext(ctx, s.d.bind("SELECT "+rowColumns+", payload, CASE WHEN "+s.d.leased()+
		" THEN 1 ELSE 0 END FROM "+s.sql.table+" WHERE id = ?"+s.d.forUpdate), id), &t, &t.Payload, &leased)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("id %.80q: %w", id, model.ErrNotFound)
	case err != nil:
		return err
	case e.Epoch != nil && *e.Epoch != t.Epoch: // the row is locked: of two edits the second sees the first
		return fmt.Errorf("id %s: %w (epoch %d, it was %d)", t.ID, model.ErrChanged, t.Epoch, *e.Epoch)
	case leased:
		return fmt.Errorf("id %s: %w by %q", t.ID, model.ErrLeased, t.ClaimedBy)
	}
	if err := e.Apply(&t); err != nil {
		return err
	}
	if len(t.Payload) > s.maxBody {
		return &model.InvalidError{Field: "body", Reason: fmt.Sprintf("has %d bytes, above %d, a quarter of the "+
			"server's max_allowed_packet", len(t.Payload), s.maxBody), Index: -1}
	}
	n, err := affected(tx.ExecContext(ctx, s.d.bind("UPDATE "+s.sql.table+" SET message_key = ?, exchange = ?, "+
		"routing_key = ?, properties = ?, payload = ?, size = ?, version = version+1, epoch = epoch+1, "+
		"claimed_by = '', claims = 0, lone_claims = 0, lone_since = 0, closes = 0, closes_since = 0, updated_at = "+
		s.d.now+" WHERE id = ? AND version = ?"),
		t.MessageKey, t.Exchange, t.RoutingKey, blob(t.Properties), blob(t.Payload), t.Size, t.ID, t.Version))
	if err := changedAll(n, err, 1); err != nil {
		return err
	}
	return s.insertEvents(ctx, tx, []model.Event{{
		RowID: t.ID, Kind: model.EventEdit, Code: t.LastCode, Attempts: t.Attempts, Actor: e.Actor, Epoch: t.Epoch + 1,
		Text: strings.TrimSpace(e.Reason + " [" + strings.Join(e.Changes(), " ") + "]"),
	}})
}

// AddEvent writes one line of history by itself, such as "read" when an operator looks
// at a body. At is the database's now; there need be no such row.
func (s *Store) AddEvent(ctx context.Context, e model.Event) error {
	return s.inTx(ctx, "add event", func(tx dbTx) error {
		return s.insertEvents(ctx, tx, []model.Event{e})
	})
}
