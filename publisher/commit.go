package publisher

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/transmsg/transmsg/model"
)

// Commit commits the transaction by calling commit, which is the Commit of the caller's
// own handle, and sends what was published through t:
//
//	receipts, err := out.Commit(ctx, tx.Commit)
//
// It is the only call to make at the end of a successful transaction, and it ends the
// transaction in every case: where it refuses to commit it rolls back, if the handle has
// a Rollback.
//
// Rows of a transaction that has been open for longer than half of the send budget get a
// new lease before the commit. After it the rows are read back on another connection,
// and those that exist are sent: a commit that returned nil is no proof (a deadlock whose
// error was swallowed, a savepoint that was rolled back, another database). Receipts are
// returned for the rows that exist, in the order of publishing, also beside an error.
//
// ctx bounds what comes before the commit. What comes after it is bounded by 10 s and not
// cut short by ctx.
//
// Nil means that every message is there. Errors, by errors.Is; those about rows are a
// [*model.StoreError] with the ids concerned:
//   - [model.ErrNotStored]: not committed, rolled back: a Publish had failed (the text says
//     which and why; its error is wrapped), or ctx ended.
//   - [model.ErrTxMustRollBack]: as Publish; not committed.
//   - [model.ErrClosed]: the publisher was closed before; not committed, rolled back.
//   - [model.ErrRowsMissing]: the commit returned nil, and these rows are not there
//     although their lease holds, also on the primary: they were rolled back after all.
//   - [model.ErrStoreUnknown]: the commit failed, so that it may have happened or not; or
//     it returned nil, and whether these rows were there cannot be told any more, because
//     they cannot be read back now or a compensator may have delivered and deleted them;
//     or these rows stayed although the transaction was rolled back, since DDL had committed
//     what came before it. The rows that exist are sent by a compensator.
func (t *Tx) Commit(ctx context.Context, commit func() error) ([]*Receipt, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	if commit == nil {
		return nil, errNoCommit
	}
	t.mu.Lock()
	all, since, failed := t.pending, t.since, t.failed
	t.ended, t.pending = true, nil
	t.mu.Unlock()
	envelopes := stored(all)
	switch {
	case len(failed) > 0:
		return nil, t.refused(ctx, failed[0], envelopes)
	case ctx.Err() != nil:
		return nil, t.late(ctx, envelopes, since)
	case len(envelopes) == 0:
		if err := t.commit(ctx, commit, nil, since); err != nil {
			return nil, err
		}
		return receipts(all, nil, nil), nil
	}
	if err := t.p.enter(1); err != nil {
		t.rollBack()
		return nil, err
	}
	defer t.p.leave()
	since, err := t.extend(ctx, envelopes, since)
	if err != nil {
		t.rollBack()
		return nil, err
	}
	if err := t.commit(ctx, commit, envelopes, since); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterCommit)
	defer cancel()
	there, missing, err := t.committed(ctx, envelopes, since)
	if there == nil && missing == nil {
		return nil, err
	}
	return receipts(all, there, missing), err
}

// stored are the envelopes whose rows are this transaction's own.
func stored(all []*envelope) []*envelope {
	return slices.DeleteFunc(slices.Clone(all), func(f *envelope) bool { return f.before })
}

// receipts are those of the rows that exist, in the order of publishing. A message that was
// stored before exists, unless it was this transaction that had stored it and that is missing.
func receipts(all, there, missing []*envelope) []*Receipt {
	lost, found := envelopeIDs(missing), map[*envelope]bool{}
	for _, f := range there {
		found[f] = true
	}
	var out []*Receipt
	for _, f := range all {
		if f.before && !slices.Contains(lost, f.msg.ID) {
			f.deferNow()
			found[f] = true
		}
		if found[f] {
			out = append(out, &f.receipt)
		}
	}
	return out
}

// commit calls the caller's commit and says what its error means.
func (t *Tx) commit(ctx context.Context, commit func() error, envelopes []*envelope, since time.Time) error {
	err := commit()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrTxDone), endedBefore(err):
		return t.over(ctx, envelopes, since)
	}
	return fmt.Errorf("publisher: commit: %w",
		&model.StoreError{Kind: model.ErrStoreUnknown, IDs: envelopeIDs(envelopes), Err: err})
}

// endedBefore recognises what database/sql itself answers before it asks the driver; a
// driver whose COMMIT was cut short wraps the context's error.
func endedBefore(err error) bool {
	return err == context.Canceled || err == context.DeadlineExceeded //nolint:errorlint // see above
}

// late ends a transaction whose context has ended before its commit.
func (t *Tx) late(ctx context.Context, envelopes []*envelope, since time.Time) error {
	ended, ok := t.rollBack()
	switch {
	case !ok:
		return fmt.Errorf("publisher: not committed: %w", &model.StoreError{
			Kind: model.ErrTxMustRollBack, IDs: envelopeIDs(envelopes), Err: context.Cause(ctx),
		})
	case ended: // most often database/sql was first
		return t.over(ctx, envelopes, since)
	}
	if stayed := t.stayed(ctx, envelopes); stayed != nil {
		return fmt.Errorf("publisher: not committed: %w: %w", stayed, context.Cause(ctx))
	}
	return notCommitted(envelopes, ctxEnded(ctx))
}

// over is the error for a transaction that had ended before its commit: database/sql has
// rolled it back because the context of its BeginTx ended, or somebody has ended it by
// the handle's own Commit or Rollback. What is in the table tells.
func (t *Tx) over(ctx context.Context, envelopes []*envelope, since time.Time) error {
	cause := errors.New("the transaction had ended before: the context of its BeginTx ended and database/sql rolled " +
		"it back, or the handle's own Commit or Rollback was called, which is Tx.Commit's to do")
	if ctx.Err() != nil {
		cause = ctxEnded(ctx)
	}
	if len(envelopes) == 0 {
		return notCommitted(nil, cause)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterCommit)
	defer cancel()
	states, err := t.p.cfg.Store.ReadBack(ctx, envelopeIDs(envelopes))
	there, _ := present(envelopes, states)
	if err == nil && len(there) == 0 && t.p.held(envelopes, since) {
		return notCommitted(envelopes, cause)
	}
	if err == nil && len(there) > 0 {
		cause = errors.New("the transaction was committed by the handle's own Commit, which is Tx.Commit's to do: " +
			"its messages are stored, and a compensator sends them")
	}
	return fmt.Errorf("publisher: commit: %w",
		&model.StoreError{Kind: model.ErrStoreUnknown, IDs: envelopeIDs(envelopes), Err: errors.Join(cause, err)})
}

func notCommitted(envelopes []*envelope, cause error) error {
	return fmt.Errorf("publisher: not committed: %w",
		&model.StoreError{Kind: model.ErrNotStored, IDs: envelopeIDs(envelopes), Err: cause})
}

// ctxEnded says that the context ended, with its cause.
func ctxEnded(ctx context.Context) error {
	return fmt.Errorf("the context ended before the commit, and the transaction was rolled back: %w",
		context.Cause(ctx))
}

// rollBack ends a transaction that is not committed, where the handle can: *sql.Tx and
// gorm's do, a *sql.Conn does not. It returns whether it had ended before.
func (t *Tx) rollBack() (ended, ok bool) {
	handle, ok := t.exec.(interface{ Rollback() error })
	if !ok {
		return false, false
	}
	err := handle.Rollback()
	ended = errors.Is(err, sql.ErrTxDone)
	if err != nil && !ended { // the connection is gone, and the transaction with it
		t.p.log.Warn("roll back", "error", err)
	}
	return ended, true
}

// extend gives the rows of a transaction that has been open for long a new lease through
// the caller's handle: otherwise they are due as soon as they are visible, and rows that
// a compensator has delivered meanwhile cannot be told from rows that were rolled back.
func (t *Tx) extend(ctx context.Context, envelopes []*envelope, since time.Time) (time.Time, error) {
	var ids []string
	for _, f := range envelopes {
		if !f.timed() { // the caller's user may not read when it is due
			ids = append(ids, f.msg.ID)
		}
	}
	if len(ids) == 0 || elapsed(since) <= t.p.cfg.SendBudget/2 {
		return since, nil
	}
	since = time.Now()
	if _, err := t.p.cfg.Store.ExtendTx(ctx, t.exec, ids, t.p.cfg.Lease); err != nil {
		return since, fmt.Errorf("publisher: %w", &model.StoreError{Kind: model.ErrTxMustRollBack, IDs: ids, Err: err})
	}
	return since, nil
}

// committed reads the rows back, sends those that exist, and says which do not.
func (t *Tx) committed(
	ctx context.Context, envelopes []*envelope, since time.Time,
) (there, missing []*envelope, err error) {
	states, err := t.p.cfg.Store.ReadBack(ctx, envelopeIDs(envelopes))
	if err != nil {
		t.p.cfg.observer.StoreError("read-back", err)
		return nil, nil, fmt.Errorf("publisher: read back after the commit, which returned nil: %w",
			&model.StoreError{Kind: model.ErrStoreUnknown, IDs: envelopeIDs(envelopes), Err: err})
	}
	there, missing = present(envelopes, states)
	// Before the sending, which takes time: the leases are those of the read-back.
	err = t.p.missing(missing, len(there), since)
	t.p.sendCommitted(ctx, there, states, since)
	return there, missing, err
}

// present parts the envelopes whose rows are there from those that are missing. A row is a
// envelope's only in its own epoch: another one with its id may be another process's, or this
// Tx's second after a savepoint with the first was rolled back. The first is then not
// missing: the caller has put the second in its place.
func present(envelopes []*envelope, states map[string]model.RowState) (there, missing []*envelope) {
	epochs := make(map[string]int, len(envelopes)) // of the last envelope with an id
	for _, f := range envelopes {
		epochs[f.msg.ID] = f.row.Epoch
	}
	for _, f := range envelopes {
		s, ok := states[f.msg.ID]
		switch {
		case ok && s.Epoch == f.row.Epoch:
			there = append(there, f)
		case !ok || s.Epoch != epochs[f.msg.ID]:
			missing = append(missing, f)
		}
	}
	return there, missing
}

// missing is the error for rows that are not there after the commit, or nil.
func (p *Publisher) missing(missing []*envelope, there int, since time.Time) error {
	if len(missing) == 0 {
		return nil
	}
	err := &model.StoreError{Kind: model.ErrRowsMissing, IDs: envelopeIDs(missing)}
	switch {
	case !p.held(missing, since):
		err.Kind = model.ErrStoreUnknown
		err.Err = errors.New("the rows are not there after a commit that returned nil, but their lease had ended: " +
			"the transaction was rolled back after all, or a compensator has delivered them")
	case there > 0:
		err.Err = fmt.Errorf("%d other rows of the transaction are there and sent: "+
			"a savepoint with these was rolled back by SQL text; see publisher.Tx.Savepoint", there)
	default:
		err.Err = errors.New("the transaction was rolled back after all, or ran on another database")
	}
	return fmt.Errorf("publisher: %w", err)
}

// held says whether nobody else can have had any of the rows since.
func (p *Publisher) held(envelopes []*envelope, since time.Time) bool {
	for _, f := range envelopes {
		start := since
		if f.timed() { // its lease was never extended
			start = f.since
		}
		if elapsed(start) >= p.cfg.Lease {
			return false
		}
	}
	return true
}
