package gormstore

import (
	"context"

	"github.com/transmsg/transmsg/model"
)

// settlePasses bounds how often Settle comes back to rows that are locked, half a second
// in all.
const settlePasses = 7

// Settle writes the results of sends to their rows, each fenced by the epoch and version it
// was sent with, and one event each in the same transaction (none when Deferred). It says
// per settlement what it met, in order. Above 500 settlements several transactions are
// made: an error means that those of the failing one and later are not written, and a
// repeat finds the earlier ones fenced. Transactions that rivals undid are run again.
// Texts are cleaned by [model.CleanText].
//
// Rows that somebody else holds locked are passed over. Where they stay locked for half a
// second, a [*model.BusyError] names them and their results are zero; the results of all
// others hold.
func (s *Store) Settle(ctx context.Context, list []model.Settlement) ([]model.Settled, error) {
	out := make([]model.Settled, 0, len(list))
	for rest := list; len(rest) > 0; {
		n := min(len(rest), maxRows)
		found, err := s.settlePart(ctx, rest[:n])
		if err != nil {
			return nil, s.wrap("settle", err)
		}
		out, rest = append(out, found...), rest[n:]
	}
	var cause error
	for try := 1; ; try++ {
		busy := indexesOf(out, 0)
		if len(busy) == 0 {
			return out, nil
		}
		if try == settlePasses || pause(ctx, try) != nil {
			ids := make([]string, len(busy))
			for k, i := range busy {
				ids[k] = list[i].ID
			}
			return out, s.wrap("settle", &model.BusyError{IDs: sortedIDs(ids), Err: cause})
		}
		cause = s.settleBusy(ctx, list, out, busy[:min(len(busy), maxRows)])
	}
}

// settleBusy tries the rows again that were locked. The others are written: an error
// leaves these as they are.
func (s *Store) settleBusy(ctx context.Context, list []model.Settlement, out []model.Settled, busy []int) error {
	part := make([]model.Settlement, len(busy))
	for k, i := range busy {
		part[k] = list[i]
	}
	found, err := s.settlePart(ctx, part)
	if err != nil {
		return err
	}
	for k, i := range busy {
		out[i] = found[k]
	}
	return nil
}

func indexesOf(list []model.Settled, want model.Settled) (at []int) {
	for i, v := range list {
		if v == want {
			at = append(at, i)
		}
	}
	return at
}

// settlePart writes at most 500 settlements in one transaction.
func (s *Store) settlePart(ctx context.Context, list []model.Settlement) (found []model.Settled, err error) {
	err = s.retryTx(ctx, func(tx dbTx) (err error) {
		found, err = s.settleTx(ctx, tx, list)
		return err
	})
	return found, err
}

// fence is what Settle compares with.
type fence struct {
	id                       string
	version, epoch, attempts int
	busy                     bool // somebody else holds it locked
}

func (s *Store) settleTx(ctx context.Context, tx dbTx, list []model.Settlement) ([]model.Settled, error) {
	have, err := s.lockFences(ctx, tx, list)
	if err != nil {
		return nil, err
	}
	out := make([]model.Settled, len(list))
	write := make([]*model.Settlement, 0, len(list))
	var events []model.Event
	var exhausted []string
	for i := range list {
		f := have[list[i].ID]
		switch {
		case f == nil:
			out[i] = model.SettledGone
		case f.busy:
			out[i] = 0
		case f.version != list[i].Version || f.epoch != list[i].Epoch:
			out[i] = model.SettledFenced
		default:
			out[i] = model.SettledDone
			f.version++ // a second settlement of the same row in this list is fenced
			write = append(write, &list[i])
			if list[i].Exhausted && list[i].Status == model.Ready {
				exhausted = append(exhausted, list[i].ID)
			}
			if list[i].Outcome.Kind != model.Deferred {
				events = append(events, settleEvent(&list[i], f.attempts+list[i].AttemptsDelta))
			}
		}
	}
	if len(write) == 0 {
		return out, nil
	}
	if err := s.updateSettled(ctx, tx, write); err != nil {
		return nil, err
	}
	if err := s.oweAlerts(ctx, tx, model.AlertExhausted, exhausted); err != nil {
		return nil, err
	}
	return out, s.insertEvents(ctx, tx, events)
}

// lockFences locks the rows of the settlements but those that somebody else holds. Rows
// that are gone are missing.
func (s *Store) lockFences(ctx context.Context, tx dbTx, list []model.Settlement) (map[string]*fence, error) {
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	ids = sortedIDs(ids)
	cond, args := s.d.in(ids)
	rows, err := tx.QueryContext(ctx, s.d.bind("SELECT id, version, epoch, attempts FROM "+s.sql.table+
		s.d.forceKey()+" WHERE id "+cond+" ORDER BY id"+s.d.skipLocked), args...)
	locked, err := collect(rows, err, func(r scanner, f *fence) error {
		return r.Scan(&f.id, &f.version, &f.epoch, &f.attempts)
	})
	if err != nil {
		return nil, err
	}
	have := make(map[string]*fence, len(ids))
	got := make([]string, len(locked))
	for i := range locked {
		got[i] = locked[i].id
		have[got[i]] = &locked[i]
	}
	if len(locked) == len(ids) || s.d.skipLocked == "" {
		return have, nil
	}
	busy, err := s.existing(ctx, tx, without(ids, got))
	for _, id := range busy {
		have[id] = &fence{id: id, busy: true}
	}
	return have, err
}

func settleEvent(m *model.Settlement, attempts int) model.Event {
	kind := m.Outcome.Kind.String()
	if m.Status == model.Dead {
		kind = model.EventDead
	}
	return model.Event{
		RowID: m.ID, Kind: kind, Code: m.Outcome.Code, Text: model.CleanText(m.Outcome.Text),
		Attempts: attempts, Instance: m.Instance,
	}
}

// keepCause says that a settlement leaves the row's last cause alone: it hands the row
// back and has no cause of its own.
func keepCause(m *model.Settlement) int {
	if m.Outcome.Kind == model.Deferred && (m.Outcome.Code == "" || m.Outcome.Code == model.CodeNotSent) {
		return 1
	}
	return 0
}

// updateSettled writes the locked rows in as few statements as the dialect can: their
// values differ, so MySQL and PostgreSQL join a list; SQLite has no round trip to save.
func (s *Store) updateSettled(ctx context.Context, tx dbTx, list []*model.Settlement) error {
	switch s.d.name {
	case dialectPostgres:
		return s.settlePostgres(ctx, tx, list)
	case dialectMySQL:
		return s.settleMySQL(ctx, tx, list)
	}
	for _, m := range list {
		_, err := tx.ExecContext(ctx, "UPDATE "+s.sql.table+" SET status = ?, next_attempt_at = "+
			s.d.later(s.d.now+"+?", "not_before")+", "+
			"attempts = attempts+?, failures = failures+?, claims = 0, version = version+1, claimed_by = '', "+
			"last_code = CASE WHEN ?5 = 1 THEN last_code ELSE ?6 END, "+
			"last_error = CASE WHEN ?5 = 1 THEN last_error ELSE ?7 END, updated_at = "+s.d.now+", "+
			s.clocks("", "?3", "?10")+" WHERE id = ?8 AND version = ?9",
			string(m.Status), delayMS(m.Delay), m.AttemptsDelta, m.FailuresDelta, keepCause(m),
			string(m.Outcome.Code), model.CleanText(m.Outcome.Text), m.ID, m.Version, m.ClosesDelta)
		if err != nil {
			return err
		}
	}
	return nil
}

// clocks are the assignments to what a row's end goes by. table qualifies the row's columns
// where they are read, attempts and closes are the settlement's deltas. A first failure of
// before the last replay is of an earlier life.
//
// MySQL assigns from left to right: closes_since must come before closes.
func (s *Store) clocks(table, attempts, closes string) string {
	set := table
	if s.d.name == dialectPostgres {
		set = "" // its SET takes no qualified names
	}
	return set + "first_failed_at = CASE WHEN " + attempts + " > 0 AND " + table + "first_failed_at <= " + table +
		"replayed_at THEN " + s.d.now + " ELSE " + table + "first_failed_at END, " +
		set + "lone_claims = 0, " + set + "lone_since = 0, " +
		set + "closes_since = CASE WHEN " + closes + " > 0 AND " + table + "closes = 0 THEN " + s.d.now +
		" ELSE " + table + "closes_since END, " + set + "closes = " + table + "closes+" + closes
}

func (s *Store) settleMySQL(ctx context.Context, tx dbTx, list []*model.Settlement) error {
	const row = "SELECT ? AS id, ? AS version, ? AS status, ? AS delay, ? AS attempts, ? AS failures, " +
		"? AS keep, ? AS code, ? AS error, ? AS closes"
	const more = " UNION ALL SELECT ?,?,?,?,?,?,?,?,?,?"
	query := make([]byte, 0, len(row)+len(more)*len(list)+1200)
	query = append(query, "UPDATE ("...)
	args := make([]any, 0, 10*len(list))
	for i, m := range list {
		if i == 0 {
			query = append(query, row...)
		} else {
			query = append(query, more...)
		}
		args = append(args, m.ID, m.Version, string(m.Status), delayMS(m.Delay), m.AttemptsDelta, m.FailuresDelta,
			keepCause(m), string(m.Outcome.Code), model.CleanText(m.Outcome.Text), m.ClosesDelta)
	}
	// STRAIGHT_JOIN with the converted id makes every row one look-up by primary key.
	query = append(query, ") v STRAIGHT_JOIN "+s.sql.table+" t FORCE INDEX (PRIMARY) ON "+
		"t.id = CONVERT(v.id USING ascii) COLLATE ascii_bin AND t.version = v.version "+
		"SET t.status = v.status, t.next_attempt_at = "+s.d.later(s.d.now+"+v.delay", "t.not_before")+", "+
		"t.attempts = t.attempts+v.attempts, t.failures = t.failures+v.failures, "+
		"t.claims = 0, t.version = t.version+1, t.claimed_by = '', "+
		"t.last_code = IF(v.keep = 1, t.last_code, v.code), t.last_error = IF(v.keep = 1, t.last_error, v.error), "+
		"t.updated_at = "+s.d.now+", "+s.clocks("t.", "v.attempts", "v.closes")...)
	_, err := tx.ExecContext(ctx, string(query), args...)
	return err
}

func (s *Store) settlePostgres(ctx context.Context, tx dbTx, list []*model.Settlement) error {
	n := len(list)
	id, status, code, text := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	version, attempts, failures, keep := make([]int32, n), make([]int32, n), make([]int32, n), make([]int32, n)
	closes := make([]int32, n)
	delay := make([]int64, n)
	for i, m := range list {
		id[i], status[i] = m.ID, string(m.Status)
		code[i], text[i] = string(m.Outcome.Code), model.CleanText(m.Outcome.Text)
		version[i], keep[i], delay[i] = int32(m.Version), int32(keepCause(m)), delayMS(m.Delay)
		attempts[i], failures[i], closes[i] = int32(m.AttemptsDelta), int32(m.FailuresDelta), int32(m.ClosesDelta)
	}
	_, err := tx.ExecContext(ctx, "UPDATE "+s.sql.table+" AS t SET status = v.status, "+
		"next_attempt_at = "+s.d.later(s.d.now+"+v.delay", "t.not_before")+", attempts = t.attempts+v.attempts, "+
		"failures = t.failures+v.failures, claims = 0, version = t.version+1, claimed_by = '', "+
		"last_code = CASE WHEN v.keep = 1 THEN t.last_code ELSE v.code END, "+
		"last_error = CASE WHEN v.keep = 1 THEN t.last_error ELSE v.error END, updated_at = "+s.d.now+", "+
		s.clocks("t.", "v.attempts", "v.closes")+
		" FROM unnest($1::text[], $2::int[], $3::text[], $4::bigint[], $5::int[], $6::int[], $7::int[], "+
		"$8::text[], $9::text[], $10::int[]) AS v (id, version, status, delay, attempts, failures, keep, code, "+
		"error, closes) "+
		"WHERE t.id = v.id AND t.version = v.version",
		id, version, status, delay, attempts, failures, keep, code, text, closes)
	return err
}
