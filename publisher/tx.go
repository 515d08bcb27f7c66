package publisher

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/transmsg/transmsg/model"
)

// Tx stores messages through a transaction that belongs to the caller. Nothing is sent
// before [Tx.Committed]; when that is never called, because the process dies or the
// caller forgets, a compensator sends the rows once their lease ends. A Tx is for one
// transaction and safe for concurrent use as far as the handle is.
//
// [InTx] and gormtx.Transaction do all of it around a function.
type Tx struct {
	p    *Publisher
	exec Execer

	mu      sync.Mutex
	pending []*flight
	since   time.Time // just before the first INSERT
}

// Tx borrows the caller's transaction. It does no I/O.
func (p *Publisher) Tx(exec Execer) *Tx { return &Tx{p: p, exec: exec} }

// Publish stores the messages through the caller's transaction, at its isolation level,
// and sends nothing. They exist if and when the transaction commits.
//
// [model.ErrInvalid] (with the index of the message) and [model.ErrClosed] leave the
// transaction untouched. Any other error is [model.ErrTxMustRollBack] with the driver's
// own error wrapped unchanged, so that the caller's retry logic still sees its deadlock:
// roll back and run the whole transaction again. Nothing is ever retried on the caller's
// handle.
func (t *Tx) Publish(ctx context.Context, ms ...model.Message) error {
	if len(ms) == 0 {
		return nil
	}
	if err := t.p.enter(1); err != nil {
		return err
	}
	defer t.p.leave()
	flights, err := t.p.prepare(ms)
	if err != nil {
		return fmt.Errorf("publisher: %w", err)
	}
	drafts := make([]model.Draft, len(flights))
	for i, f := range flights {
		// Leased even if the broker is down: who sends is decided after the commit.
		drafts[i] = t.p.draft(f, f.delay == 0)
	}
	since := time.Now()
	err = t.p.cfg.Store.InsertTx(ctx, t.exec, drafts)
	if err != nil {
		err = &model.StoreError{Kind: model.ErrTxMustRollBack, IDs: flightIDs(flights), Err: err}
	}
	t.p.cfg.Observer.Published(time.Since(since), err)
	if err != nil {
		return fmt.Errorf("publisher: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pending) == 0 {
		t.since = since
	}
	t.pending = append(t.pending, flights...)
	return nil
}

// BeforeCommit is to be called just before the commit of a transaction that may have been
// open for longer than half of the send budget; [InTx] and gormtx.Transaction do. For a
// shorter one it does nothing. It gives the stored rows a new lease through the caller's
// handle: otherwise they are due as soon as they are visible, and Committed cannot tell
// rows that a compensator has delivered meanwhile from rows that were rolled back. The
// error is [model.ErrTxMustRollBack], as for Publish.
func (t *Tx) BeforeCommit(ctx context.Context) error {
	t.mu.Lock()
	flights, since := t.pending, t.since
	t.mu.Unlock()
	if len(flights) == 0 || elapsed(since) <= t.p.cfg.SendBudget/2 {
		return nil
	}
	ids := flightIDs(slices.DeleteFunc(slices.Clone(flights), func(f *flight) bool { return f.delay > 0 }))
	since = time.Now()
	if _, err := t.p.cfg.Store.ExtendTx(ctx, t.exec, ids, t.p.cfg.Grace); err != nil {
		return fmt.Errorf("publisher: %w", &model.StoreError{Kind: model.ErrTxMustRollBack, IDs: ids, Err: err})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.since = since
	return nil
}

// Committed is to be called after the transaction's Commit returned nil, and only then:
// after any error of Commit, which may have happened or not, call nothing; the rows, if
// they exist, are sent by a compensator.
//
// It reads the rows back on another connection and sends those that exist: a Commit that
// returned nil is no proof (a deadlock whose error was swallowed, a savepoint rolled
// back). Receipts are returned for the rows that exist, in the order of publishing. None
// there is [model.ErrRowsMissing]: nothing was stored, nothing is sent. Where the grace
// had ended before they were read, that cannot be told from rows which a compensator has
// delivered and deleted meanwhile: then the error is [model.ErrStoreUnknown]; see
// BeforeCommit. Any other error
// means that the rows could not be read back now; they are safe, and a compensator sends
// them when their lease ends. ctx bounds the read. A second call returns nothing.
func (t *Tx) Committed(ctx context.Context) ([]*Receipt, error) {
	t.mu.Lock()
	flights, since := t.pending, t.since
	t.pending = nil
	t.mu.Unlock()
	if len(flights) == 0 {
		return nil, nil
	}
	if err := t.p.enter(1); err != nil {
		return nil, err
	}
	defer t.p.leave()
	states, err := t.p.cfg.Store.ReadBack(ctx, flightIDs(flights))
	if err != nil {
		t.p.cfg.Observer.StoreError("read-back", err)
		return nil, fmt.Errorf("publisher: read back after commit: %w", err)
	}
	var there []*flight
	for _, f := range flights {
		if _, ok := states[f.msg.ID]; ok {
			there = append(there, f)
		}
	}
	if len(there) == 0 {
		return nil, t.p.missing(flights, since)
	}
	if missing := len(flights) - len(there); missing > 0 {
		t.p.log.Warn("some rows are not there after the commit: a savepoint was rolled back",
			"missing", missing, "present", len(there))
	}
	t.p.sendCommitted(ctx, there, states, since)
	receipts := make([]*Receipt, len(there))
	for i, f := range there {
		receipts[i] = &f.receipt
	}
	return receipts, nil
}

// missing is the error for rows of which none is there after the commit.
func (p *Publisher) missing(flights []*flight, since time.Time) error {
	err := &model.StoreError{
		Kind: model.ErrRowsMissing, IDs: flightIDs(flights),
		Err: errors.New("the transaction was rolled back after all, or ran on another database, " +
			"or the read went to a replica"),
	}
	if elapsed(since) >= p.cfg.Grace {
		err.Kind = model.ErrStoreUnknown
		err.Err = errors.New("the rows are not there after the commit, but their lease had ended: the transaction " +
			"was rolled back after all, or a compensator has delivered them; call BeforeCommit in long transactions")
	}
	return fmt.Errorf("publisher: %w", err)
}

func flightIDs(flights []*flight) []string {
	ids := make([]string, len(flights))
	for i, f := range flights {
		ids[i] = f.msg.ID
	}
	return ids
}

// sendCommitted sends the rows that are still this process's: never claimed, READY, and
// within the send budget, or with the lease renewed where the transaction took longer.
func (p *Publisher) sendCommitted(
	ctx context.Context, fs []*flight, states map[string]model.RowState, since time.Time,
) {
	var mine []*flight
	for _, f := range fs {
		s := states[f.msg.ID]
		if f.delay == 0 && s.Status == model.Ready && s.Version == 0 && s.Epoch == 0 {
			mine = append(mine, f)
		} else {
			f.deferNow()
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
func (p *Publisher) renew(ctx context.Context, fs []*flight) (renewed []*flight, since time.Time) {
	since = time.Now()
	ids, err := p.cfg.Store.Renew(ctx, p.cfg.Instance, flightIDs(fs), p.cfg.Grace)
	if err != nil {
		p.log.Warn("renew leases after a long transaction: left to the compensator", "rows", len(fs), "error", err)
		p.cfg.Observer.StoreError("renew", err)
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

// InTx runs fn in a transaction of db with a [Tx] on it, commits, and sends what fn
// published. An error or panic of fn rolls back and comes back unchanged. An error of
// the commit is wrapped: whether it happened is unknown, and if it did a compensator
// sends the rows. After a successful commit the only error is [model.ErrRowsMissing];
// when the rows cannot be read back right now, that is logged, they are left to a
// compensator, and InTx returns nil, since the transaction did happen.
//
// db must reach the same database as the publisher's store. opts may be nil.
func InTx(ctx context.Context, p *Publisher, db *sql.DB, opts *sql.TxOptions, fn func(*sql.Tx, *Tx) error) error {
	tx, err := db.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("publisher: begin: %w", err)
	}
	t := p.Tx(tx)
	done := false
	defer func() {
		if !done { // an error or a panic of fn; the caller gets that, not this
			if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
				p.log.Warn("roll back", "error", err)
			}
		}
	}()
	if err := fn(tx, t); err != nil {
		return err
	}
	if err := t.BeforeCommit(ctx); err != nil {
		return err
	}
	done = true
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("publisher: commit: %w", err)
	}
	return t.AfterCommit(ctx)
}

// AfterCommit is Committed for wrappers such as [InTx] that have just committed and
// report to a caller for whom the transaction has happened: it is not cut short by ctx,
// returns only [model.ErrRowsMissing], and logs anything else.
func (t *Tx) AfterCommit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterCommit)
	defer cancel()
	_, err := t.Committed(ctx)
	switch {
	case errors.Is(err, model.ErrRowsMissing):
		return err
	case err != nil:
		t.p.log.Warn("after commit: rows are left to the compensator", "error", err)
	}
	return nil
}
