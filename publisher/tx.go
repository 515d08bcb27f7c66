package publisher

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/transmsg/transmsg/model"
)

// Tx stores messages through a transaction that belongs to the caller. Nothing is sent
// before [Tx.Commit] has committed; where the caller commits without it, or the process
// dies in between, a compensator sends the rows once their lease ends. A Tx is for one
// transaction and safe for concurrent use as far as the handle is.
//
// [InTx] and gormtx.Transaction do all of it around a function.
type Tx struct {
	p    *Publisher
	exec Execer

	mu         sync.Mutex
	ended      bool // Commit was called, or the transaction rolled back by its wrapper
	failed     []*failure
	pending    []*envelope
	since      time.Time // just before the first INSERT
	savepoints int       // set so far, for their names
}

// Tx borrows the caller's transaction. It does no I/O. [InTx] hands its function a context
// that knows of the transaction; by hand that is [Tx.Context].
func (p *Publisher) Tx(exec Execer) *Tx { return &Tx{p: p, exec: exec} }

// Publish stores the messages through the caller's transaction, at its isolation level,
// and sends nothing. They exist if and when the transaction commits.
//
// The Tx remembers the first error: [Tx.Commit] then refuses to commit, so that a handler
// which overlooks it does not store an order without its message. What failed inside a
// savepoint that was rolled back does not count. Who can do without the message says so:
// [Tx.TryPublish].
//
// A message whose id is stored with equal content already, such as that of a handler which is
// delivered again while its first row waits, is success as with [Publisher.Publish]: its receipt
// is deferred, says stored before, and nothing is sent twice.
//
// Errors, by errors.Is:
//   - [model.ErrInvalid] (with the index of the message), [model.ErrClosed]: the transaction is
//     untouched.
//   - [model.ErrConflict], [model.ErrDead], with the ids: as with [Publisher.Publish]. The
//     transaction is usable, and the other messages of the call are stored in it.
//   - [model.ErrTxMustRollBack] is any other, with the driver's own error wrapped unchanged, so
//     that the caller's retry logic still sees its deadlock: roll back and run the whole
//     transaction again. On PostgreSQL at REPEATABLE READ or above that is also what an id meets
//     which somebody else stored after the transaction's snapshot (40001).
//
// No statement that failed is retried on the caller's handle, except an INSERT that met an
// existing id: what that has, is read by a connection of the store.
func (t *Tx) Publish(ctx context.Context, ms ...model.Message) error {
	if err := t.usable(); err != nil {
		return err
	}
	if len(ms) == 0 {
		return nil
	}
	err := t.p.during(func() error {
		envelopes, err := t.p.prepare(ms)
		if err != nil {
			return fmt.Errorf("publisher: %w", err)
		}
		return t.insert(ctx, envelopes)
	})
	if err != nil {
		t.remember(&failure{call: calledAt("Tx.Publish", 1), err: err})
	}
	return err
}

// TryPublish is Publish for messages that the transaction can do without: after an error
// the transaction may go on and commit, and none of these messages exists.
//
//	if err := out.TryPublish(ctx, hint); err != nil {
//		log.Warn("the order goes on without the hint", "error", err)
//	}
//
// What can fail in the database is done inside a savepoint of its own, at the price of two
// more statements. Where that cannot be rolled back (the connection broke, or a deadlock
// has ended the transaction), the error is [model.ErrTxMustRollBack], and the commit is
// refused as after Publish.
func (t *Tx) TryPublish(ctx context.Context, ms ...model.Message) error {
	if err := t.usable(); err != nil {
		return err
	}
	if len(ms) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("publisher: %w", err)
	}
	return t.p.during(func() error {
		envelopes, err := t.p.prepare(ms)
		if err != nil {
			return fmt.Errorf("publisher: %w", err)
		}
		return t.Savepoint(ctx, func() error { return t.insert(ctx, envelopes) })
	})
}

// during runs f as a call of the publisher, unless that is closed.
func (p *Publisher) during(f func() error) error {
	if err := p.enter(1); err != nil {
		return err
	}
	defer p.leave()
	return f()
}

// insert stores the envelopes through the caller's handle.
func (t *Tx) insert(ctx context.Context, envelopes []*envelope) error {
	drafts := make([]model.Draft, len(envelopes))
	for i, f := range envelopes {
		// Leased even if the broker is down: who sends is decided after the commit.
		drafts[i] = t.p.draft(f, true)
	}
	since := time.Now()
	for _, f := range envelopes {
		f.since = since
	}
	stored, err := t.p.cfg.Store.InsertTx(ctx, t.exec, drafts, t.own)
	if err != nil {
		err = &model.StoreError{Kind: model.ErrTxMustRollBack, IDs: envelopeIDs(envelopes), Err: err}
	} else {
		t.keep(envelopes, stored, since)
		err = refusals(drafts, stored)
	}
	t.p.cfg.observer.Published(time.Since(since), err)
	if err != nil {
		return fmt.Errorf("publisher: %w", err)
	}
	return nil
}

// keep remembers the messages that are stored, also beside others of the call that are not.
func (t *Tx) keep(envelopes []*envelope, stored []model.Stored, since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pending) == 0 {
		t.since = since
	}
	for i, f := range envelopes {
		if f.before = stored[i] == model.StoredBefore; f.before || stored[i] == model.StoredNew {
			t.pending = append(t.pending, f)
		}
	}
}

// own returns what the transaction itself stored under an id, since whatever savepoint it was
// rolled back to: the last one, since one rolled back by SQL text may be remembered before it.
func (t *Tx) own(id string) *model.TransMessage {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range slices.Backward(t.pending) {
		if f.msg.ID == id && !f.before {
			return &f.row
		}
	}
	return nil
}

func envelopeIDs(envelopes []*envelope) []string {
	ids := make([]string, len(envelopes))
	for i, f := range envelopes {
		ids[i] = f.msg.ID
	}
	return ids
}

// sendCommitted sends the rows that are still this process's: never claimed, READY, and
// within the send budget, or with the lease renewed where the transaction took longer.
func (p *Publisher) sendCommitted(
	ctx context.Context, fs []*envelope, states map[string]model.RowState, since time.Time,
) {
	var mine []*envelope
	for _, f := range fs {
		s := states[f.msg.ID]
		switch {
		case s.Status != model.Ready || s.Version != 0:
			f.deferNow()
		case f.timed():
			f.handBack()
		default:
			mine = append(mine, f)
		}
	}
	if late := elapsed(since) > p.cfg.SendBudget/2; late && len(mine) > 0 {
		mine, since = p.renew(ctx, mine)
	}
	if len(mine) == 0 {
		return
	}
	p.reserve(mine)
	for _, f := range mine {
		if f.reserved {
			f.send(since)
		} else {
			f.handBack()
		}
	}
}

// renew extends the leases of rows whose transaction stayed open for long. What is not
// renewed has been claimed by a compensator, or could not be: it is left alone.
func (p *Publisher) renew(ctx context.Context, fs []*envelope) (renewed []*envelope, since time.Time) {
	keys := make([]model.RowKey, len(fs))
	for i, f := range fs {
		keys[i] = model.RowKey{ID: f.msg.ID, Epoch: f.row.Epoch}
	}
	since = time.Now()
	ids, err := p.cfg.Store.Renew(ctx, p.cfg.Instance, keys, p.cfg.Lease)
	if err != nil {
		p.log.Warn("renew leases after a long transaction: left to the compensator", "rows", len(fs), "error", err)
		p.cfg.observer.StoreError("renew", err)
		ids = nil
	}
	got := make(map[string]bool, len(ids))
	for _, id := range ids {
		got[id] = true
	}
	for _, f := range fs {
		if !got[f.msg.ID] {
			f.deferNow()
			continue
		}
		f.row.Version++
		renewed = append(renewed, f)
	}
	return renewed, since
}

// elapsed is the time since start by whichever clock moved further: the monotonic one
// stands still while the machine is suspended.
func elapsed(start time.Time) time.Duration {
	return max(time.Since(start), time.Now().Round(0).Sub(start.Round(0)))
}
