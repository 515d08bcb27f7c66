package gormstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/transmsg/transmsg/model"
)

const (
	maxActor = 64 // bytes of an event's actor
	// A replay with a rate starts at a tenth of it and reaches it after rampTime.
	rampTime  = 30 * time.Second
	rampStart = 0.1
)

// Replay makes DEAD rows READY again: attempts, failures and claims become zero, epoch
// and version grow, so that no late result of an earlier send touches them, and a
// "replay" event tells actor, reason and selection. It works in batches of at most 500,
// each committed by itself, and looks at every row again under its lock: of two calls at
// the same time each row is replayed, and counted, by one. Rows that are not DEAD are
// passed over; the filter's status must be DEAD or empty. With the filter's Exhausted it is
// about READY rows whose attempts are used up instead: those that are being sent stay.
//
// With a rate, in rows a second, the due times are spread: slowly at first, as after an
// outage, and at the full rate after 30 s. Zero makes all rows due now.
//
// It returns the number of rows replayed, also with an error: they are committed.
func (s *Store) Replay(ctx context.Context, a model.OperatorAct, rate float64) (int, error) {
	if err := checkRate(rate); err != nil {
		return 0, fmt.Errorf("gormstore: replay: %w", err)
	}
	if a.Filter.Status == model.Ready && !a.Filter.Exhausted {
		return 0, errors.New("gormstore: replay: only DEAD rows and those with attempts used up can be replayed, " +
			"got status READY")
	}
	return s.act(ctx, "replay", a, func(tx dbTx, a *model.OperatorAct, ids []string, done int) (int, error) {
		found, err := s.lockRows(ctx, tx, ids, a.Filter, " AND NOT "+s.d.leased())
		if err != nil || len(found) == 0 {
			return 0, err
		}
		if err := s.makeReady(ctx, tx, lockedIDs(found), done, rate); err != nil {
			return 0, err
		}
		return len(found), s.actEvents(ctx, tx, a, model.EventReplay, found)
	})
}

// makeReady replays locked rows; the first of them is the done-th of its call.
func (s *Store) makeReady(ctx context.Context, tx dbTx, ids []string, done int, rate float64) error {
	delay, args := spreadOver(ids, done, rate)
	cond, args := s.d.in(ids, args...)
	n, err := affected(tx.ExecContext(ctx, s.d.bind("UPDATE "+s.sql.table+" SET status = 'READY', attempts = 0, "+
		"failures = 0, claims = 0, version = version+1, epoch = epoch+1, claimed_by = '', first_failed_at = 0, "+
		"lone_claims = 0, lone_since = 0, closes = 0, closes_since = 0, next_attempt_at = "+
		s.d.later(s.d.now+"+"+delay, "not_before")+", replayed_at = "+s.d.now+", updated_at = "+s.d.now+
		" WHERE id "+cond), args...))
	return changedAll(n, err, len(ids))
}

// spreadOver is the expression of the rows' delays in milliseconds, with its arguments.
func spreadOver(ids []string, done int, rate float64) (string, []any) {
	if rate == 0 {
		return "0", nil
	}
	args := make([]any, len(ids))
	var b strings.Builder
	b.WriteString("CASE id")
	for i, id := range ids {
		b.WriteString(" WHEN ? THEN " + strconv.FormatInt(spread(done+i, rate).Milliseconds(), 10))
		args[i] = id
	}
	b.WriteString(" ELSE 0 END")
	return b.String(), args
}

// spread is when the i-th row of a replay is due: the time t at which
// rate * (rampStart*t + (1-rampStart)*t²/(2*rampTime)) reaches i, and one row each 1/rate
// after the ramp.
func spread(i int, rate float64) time.Duration {
	ramp := rampTime.Seconds()
	inRamp := rate * ramp * (1 + rampStart) / 2
	n := float64(i)
	t := ramp + (n-inRamp)/rate
	if n < inRamp {
		a, b := rate*(1-rampStart)/(2*ramp), rate*rampStart
		t = (math.Sqrt(b*b+4*a*n) - b) / (2 * a)
	}
	const top = 10 * 365 * 24 * time.Hour // beyond any sense, and within an int64
	return time.Duration(min(t, top.Seconds()) * float64(time.Second))
}

// Discard deletes DEAD rows, or READY ones where the filter says so; READY rows that are
// being sent are passed over. A "discard" event with actor, reason and selection is
// written in the same transaction: [Store.Restore] respects it, so that a late result
// does not bring the row back. Batches, concurrency and result are as in
// [Store.Replay].
func (s *Store) Discard(ctx context.Context, a model.OperatorAct) (int, error) {
	return s.act(ctx, "discard", a, func(tx dbTx, a *model.OperatorAct, ids []string, _ int) (int, error) {
		found, err := s.lockRows(ctx, tx, ids, a.Filter, " AND NOT "+s.d.leased())
		if err != nil || len(found) == 0 {
			return 0, err
		}
		if err := s.deleteLocked(ctx, tx, found); err != nil {
			return 0, err
		}
		return len(found), s.actEvents(ctx, tx, a, model.EventDiscard, found)
	})
}

func (s *Store) deleteLocked(ctx context.Context, tx dbTx, found []lockedRow) error {
	cond, args := s.d.in(lockedIDs(found))
	n, err := affected(tx.ExecContext(ctx, s.d.bind("DELETE "+s.rowsToDelete()+" WHERE m.id "+cond+
		" AND m.epoch >= 0"), args...))
	return changedAll(n, err, len(found))
}

// act picks the rows, DEAD ones unless the filter names a status or used-up attempts, and hands
// them to do, one transaction for each batch.
func (s *Store) act(
	ctx context.Context, op string, a model.OperatorAct,
	do func(tx dbTx, a *model.OperatorAct, ids []string, done int) (int, error),
) (int, error) {
	sel, err := a.Selection.WithDefaults()
	if err == nil {
		err = checkActor(a.Actor)
	}
	if err != nil {
		return 0, fmt.Errorf("gormstore: %s: %w", op, err)
	}
	// After the check above: a selection that names nothing must not become all DEAD rows.
	a.Selection = sel
	a.Filter.Status = statusOf(sel.Filter)
	list, _, err := s.pick(ctx, a.Selection)
	if err != nil {
		return 0, s.wrap(op, err)
	}
	total := 0
	for ids := candidateIDs(list); len(ids) > 0; {
		part, n := ids[:min(len(ids), maxRows)], 0
		err := s.inTx(ctx, op, func(tx dbTx) (err error) {
			n, err = do(tx, &a, part, total)
			return err
		})
		if err != nil {
			return total, err
		}
		total, ids = total+n, ids[len(part):]
		if a.Progress != nil {
			a.Progress(total)
		}
	}
	return total, nil
}

// statusOf is the status that a filter is about where one must be.
func statusOf(f model.Filter) model.Status {
	switch {
	case f.Status != "":
		return f.Status
	case f.Exhausted:
		return model.Ready
	}
	return model.Dead
}

// actEvents writes one line for each row of an act.
func (s *Store) actEvents(ctx context.Context, tx dbTx, a *model.OperatorAct, kind string, rows []lockedRow) error {
	text := a.Text()
	events := make([]model.Event, len(rows))
	for i, r := range rows {
		events[i] = model.Event{
			RowID: r.id, Kind: kind, Code: r.code, Text: text, Attempts: r.attempts, Actor: a.Actor,
		}
		if kind == model.EventReplay {
			events[i].Attempts = 0
		}
	}
	return s.insertEvents(ctx, tx, events)
}

func checkRate(rate float64) error {
	if math.IsNaN(rate) || rate < 0 || math.IsInf(rate, 0) {
		return fmt.Errorf("rate %v must be a number of rows a second, or 0", rate)
	}
	return nil
}

func checkActor(actor string) error {
	if actor == "" || len(actor) > maxActor || !utf8.ValidString(actor) || strings.ContainsRune(actor, 0) {
		return fmt.Errorf("actor %q must be 1 to %d bytes of UTF-8 without NUL", actor, maxActor)
	}
	return nil
}
