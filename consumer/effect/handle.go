package effect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/model"
)

// Transaction is an open transaction as [Once.Handle] uses it: *sql.Tx and gorm's are one.
type Transaction interface {
	model.Transaction
	Rollback() error
}

// Body writes the record through tx and calls effect, once. Its error rolls the transaction back.
type Body func(ctx context.Context, tx Transaction, effect func() error) error

// Handle is one delivery, for who begins transactions in another way than [Once.InTx]. transact opens a transaction,
// calls the body once with it, commits when the body returned nil and rolls back when it did not, and returns the
// error of either.
func (o *Once) Handle(
	ctx context.Context, m *consumer.Message, transact func(ctx context.Context, body Body) error,
) error {
	r, err := o.record(m)
	switch {
	case errors.Is(err, errNoID) && o.cfg.NoID == NoIDUnguarded:
		r.Key = nil
	case err != nil:
		return consumer.Permanent(err)
	}
	d := &delivery{o: o, r: r}
	return d.answer(ctx, transact(ctx, d.body))
}

// stage is how far a delivery came.
type stage uint8

const (
	beginning stage = iota
	recording
	handling
	committing
)

// delivery is one call of a handler.
type delivery struct {
	o     *Once
	r     model.InboxRecord
	stage stage
	// lost says that the transaction's connection was gone when the handler had failed.
	lost bool
}

var (
	errDone = errors.New("done")
	errGone = errors.New("the transaction was rolled back in the middle, and the handler went on: it overlooked the " +
		"error of a statement, such as a deadlock; what it did after that may have stayed. A handler returns its " +
		"statements' errors")
)

// body is what happens inside the transaction.
func (d *delivery) body(ctx context.Context, tx Transaction, effect func() error) error {
	if err := d.record(ctx, tx); err != nil {
		return err
	}
	d.stage = handling
	if err := effect(); err != nil {
		ended := tx.Rollback()
		d.lost = ended != nil && !errors.Is(ended, sql.ErrTxDone)
		return err
	}
	d.stage = committing
	if d.r.Key == nil {
		return nil
	}
	held, err := d.o.cfg.Store.RecordedTx(ctx, tx, d.r)
	if err == nil && !held {
		err = errGone
	}
	return err
}

// record writes the record before anything else is done.
func (d *delivery) record(ctx context.Context, tx Transaction) error {
	if d.r.Key == nil {
		return nil
	}
	d.stage = recording
	first, err := d.o.cfg.Store.RecordTx(ctx, tx, d.r, d.o.cfg.Wait)
	if err == nil && !first {
		return errDone
	}
	return err
}

// answer is what the consumer is told. The end of ctx comes back as it is: whose it was, the consumer knows.
func (d *delivery) answer(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case d.stage == recording && errors.Is(err, errDone):
		return consumer.Skipped("done")
	case d.stage == handling:
		return d.handlerError(ctx, err)
	}
	err = fmt.Errorf("effect: %s: %w", [...]string{"begin", "record", "", "commit"}[d.stage], err)
	if ctx.Err() != nil {
		return err
	}
	switch d.o.cfg.Store.TxFault(err) {
	case model.FaultRivals:
		return consumer.Busy(err)
	case model.FaultAway, model.FaultLost:
		return consumer.Unavailable(err)
	default: // about the statement
	}
	switch {
	case d.stage == recording: // the table or a right is missing: no message can be handled
		return consumer.Unavailable(err)
	case d.stage == committing && unknown(err): // the record decides at the next delivery
		return consumer.Busy(err)
	}
	return err
}

// unknown recognises a commit of which nobody knows whether it happened, and one that did not happen after all.
func unknown(err error) bool {
	return errors.Is(err, model.ErrStoreUnknown) || errors.Is(err, model.ErrRowsMissing) || errors.Is(err, errGone)
}

// handlerError judges what the handler itself returned. Its own words count, and what tells about this transaction: a
// connection that broke may be another server's, unless the transaction's is gone too.
func (d *delivery) handlerError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil, consumer.IsPermanent(err), consumer.IsUnavailable(err), consumer.IsBusy(err),
		consumer.IsSkipped(err):
		return err
	case d.lost:
		return consumer.Unavailable(err)
	}
	switch d.o.cfg.Store.TxFault(err) {
	case model.FaultRivals:
		return consumer.Busy(err)
	case model.FaultAway:
		return consumer.Unavailable(err)
	default:
		return err
	}
}
