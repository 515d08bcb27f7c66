package gormstore

import (
	"context"
	"fmt"

	"github.com/transmsg/transmsg/model"
)

// exportBytes bounds the bodies that an export holds at a time; a single row may be
// larger.
const exportBytes = 8 << 20

// Export calls do with every row of the selection, payload included and byte for byte,
// and stops at its first error. Rows that are gone or do not match any more when their
// turn comes are left out. do may call the store.
func (s *Store) Export(ctx context.Context, sel model.Selection, do func(model.TransMessage) error) error {
	sel, err := sel.WithDefaults()
	if err != nil {
		return fmt.Errorf("gormstore: export: %w", err)
	}
	list, _, err := s.pick(ctx, sel)
	if err != nil {
		return s.wrap("export", err)
	}
	for len(list) > 0 {
		n, size := 0, int64(0)
		for n < len(list) && n < maxRows && (n == 0 || size+list[n].size <= exportBytes) {
			size += list[n].size
			n++
		}
		rows, err := s.readRows(ctx, candidateIDs(list[:n]), sel.Filter, true)
		if err != nil {
			return s.wrap("export", err)
		}
		for i := range rows {
			if err := do(rows[i]); err != nil {
				return err
			}
		}
		list = list[n:]
	}
	return nil
}

// Import stores exported rows again, byte for byte and with their status, counts and
// times, and writes an "import" event for each. A lease is not taken over: the row is due
// now. Rows that exist with equal content are passed over, so a repeat is harmless; one
// that exists with other content is a [*model.StoreError] of kind [model.ErrConflict].
// Batches are committed one by one: n rows were stored, also with an error.
func (s *Store) Import(ctx context.Context, rows []model.TransMessage, actor string) (n int, err error) {
	if err := checkActor(actor); err != nil {
		return 0, fmt.Errorf("gormstore: import: %w", err)
	}
	for i := range rows {
		if err := s.checkImport(&rows[i]); err != nil {
			return 0, fmt.Errorf("gormstore: import: row %d: id %.80q: %w", i, rows[i].ID, err)
		}
	}
	for len(rows) > 0 {
		size, k := 0, 0
		for k < len(rows) && k < maxRows && (k == 0 || size+rows[k].Size <= exportBytes) {
			size += len(rows[k].Payload) + len(rows[k].Properties)
			k++
		}
		part, stored := rows[:k], 0
		err := s.inTx(ctx, "import", func(tx dbTx) (err error) {
			stored, err = s.importTx(ctx, tx, part, actor)
			return err
		})
		if err != nil {
			return n, err
		}
		n, rows = n+stored, rows[k:]
	}
	return n, nil
}

func (s *Store) checkImport(t *model.TransMessage) error {
	switch {
	case len(t.ID) < 1 || len(t.ID) > 36:
		return fmt.Errorf("the id must have 1 to 36 bytes")
	case t.Service == "":
		return fmt.Errorf("the service is empty")
	case t.Status != model.Ready && t.Status != model.Dead:
		return fmt.Errorf("status %.20q must be READY or DEAD", t.Status)
	case t.CreatedAt <= 0:
		return fmt.Errorf("created at %d must be positive", t.CreatedAt)
	case len(t.Payload) > s.maxBody:
		return fmt.Errorf("body of %d bytes is above %d, a quarter of the server's max_allowed_packet",
			len(t.Payload), s.maxBody)
	}
	return nil
}

func (s *Store) importTx(ctx context.Context, tx dbTx, rows []model.TransMessage, actor string) (int, error) {
	ids := make([]string, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	existing, err := s.readContent(ctx, tx, ids, "")
	if err != nil {
		return 0, err
	}
	var events []model.Event
	for i := range rows {
		t := &rows[i]
		if have := existing[t.ID]; have != nil {
			if !model.SameContent(have, t) {
				return 0, &model.StoreError{Kind: model.ErrConflict, IDs: []string{t.ID}}
			}
			continue
		}
		existing[t.ID] = t // a repeat within the call
		if err := s.insertImported(ctx, tx, t); err != nil {
			return 0, err
		}
		events = append(events, model.Event{
			RowID: t.ID, Kind: model.EventImport, Code: t.LastCode, Attempts: t.Attempts, Actor: actor,
		})
	}
	return len(events), s.insertEvents(ctx, tx, events)
}

func (s *Store) insertImported(ctx context.Context, tx dbTx, t *model.TransMessage) error {
	due, args := "?", []any{
		t.ID, t.Service, string(t.Status), t.Attempts, t.Failures, t.Claims, t.Version, model.NewEpoch(), t.MessageKey,
		t.Exchange, t.RoutingKey, blob(t.Properties), blob(t.Payload), len(t.Payload) + len(t.Properties),
		string(t.LastCode), t.LastError, t.CreatedAt, t.UpdatedAt, t.ReplayedAt, t.FirstFailedAt, t.LoneClaims,
		t.LoneSince, t.Closes, t.ClosesSince, t.NotBefore,
	}
	if t.ClaimedBy != "" {
		due, args = s.d.later(s.d.now, "?"), append(args, t.NotBefore)
	} else {
		args = append(args, t.NextAttemptAt)
	}
	_, err := tx.ExecContext(ctx, s.d.bind("INSERT INTO "+s.sql.table+" (id, service, status, attempts, failures, "+
		"claims, version, epoch, message_key, exchange, routing_key, properties, payload, size, last_code, "+
		"last_error, created_at, updated_at, replayed_at, first_failed_at, lone_claims, lone_since, closes, "+
		"closes_since, not_before, next_attempt_at) VALUES ("+placeholders(25)+","+due+")"),
		args...)
	return err
}
