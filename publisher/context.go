package publisher

import (
	"context"
	"errors"
	"fmt"
)

// ErrInTx says that a call was made with the context of an open transaction, which it is
// not part of: the message or row would stay when the transaction is rolled back. The
// text names the call that is meant. The transaction cannot be committed any more. Who
// does mean it takes [OutsideTx].
var ErrInTx = errors.New("a transaction is open in this context")

// txKey is the context's key for the open *Tx.
type txKey struct{}

// Context returns a ctx that knows of the open transaction, as [InTx] hands it to its
// function: with it Publish and PublishBatch of a [Publisher], InTx and
// gormtx.Transaction are refused by [ErrInTx] until the transaction has ended. For
// transactions by hand; use it for what belongs to the transaction only.
func (t *Tx) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, txKey{}, t)
}

// OutsideTx returns a ctx that does not know of the open transaction, for a message or a
// transaction that must stay whatever becomes of it, such as an entry about a failure:
//
//	_, err := pub.Publish(publisher.OutsideTx(ctx), attempt) // also if the order is rolled back
func OutsideTx(ctx context.Context) context.Context {
	return context.WithValue(ctx, txKey{}, (*Tx)(nil))
}

// TxFrom returns the [Tx] of the transaction that is open in ctx, or nil.
func TxFrom(ctx context.Context) *Tx {
	t, _ := ctx.Value(txKey{}).(*Tx)
	if t.usable() != nil {
		return nil
	}
	return t
}

// refuseInTx refuses a call that does not belong into the transaction that is open in
// ctx, and its commit too: a handler that overlooks the error would commit half of what
// it meant.
func refuseInTx(ctx context.Context, call, instead string, skip int) error {
	t := TxFrom(ctx)
	if t == nil {
		return nil
	}
	err := fmt.Errorf("publisher: %s: %w: %s, or publisher.OutsideTx(ctx) if it is to stay when that is rolled back",
		call, ErrInTx, instead)
	t.remember(&failure{call: calledAt(call, skip+1), err: err})
	return err
}
