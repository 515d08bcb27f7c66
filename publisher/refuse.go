package publisher

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"

	"github.com/transmsg/transmsg/model"
)

// What a misuse is told: each names the call that is meant.
var (
	errNoPublisher = errors.New("publisher: the *Publisher is nil or was not made by publisher.Open: " +
		"open one per process and check Open's error")
	errNoTx = errors.New("publisher: the *Tx is nil or zero: " +
		"take the one that publisher.InTx or gormtx.Transaction hands to your function, or make it by Publisher.Tx")
	errNoHandle = errors.New("publisher: the transaction given to Publisher.Tx is nil: " +
		"begin one by BeginTx and check its error")
	errEnded = errors.New("publisher: this transaction has ended: a Tx is for one transaction, " +
		"and its Commit is the last call")
	errNoCommit = errors.New("publisher: the function that Tx.Commit is to call is nil: " +
		"give it the handle's own, as in out.Commit(ctx, tx.Commit)")
	errNoFunction = errors.New("publisher: the function to run in the transaction is nil")
	errNoReceipt  = errors.New("publisher: the *Receipt is nil or zero: check the error of the call that returned it")
)

// failure is a call of the caller's that failed inside a transaction.
type failure struct {
	call string // such as "Tx.Publish at orders.go:42", or "" where the error names it
	err  error
}

// Error implements error.
func (f *failure) Error() string {
	if f.call == "" {
		return f.err.Error()
	}
	return fmt.Sprintf("%s failed: %v", f.call, f.err)
}

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.err }

// calledAt names a call by its place in the caller's code. skip counts the frames between.
func calledAt(call string, skip int) string {
	_, file, line, ok := runtime.Caller(skip + 1)
	if !ok {
		return call
	}
	return fmt.Sprintf("%s at %s:%d", call, filepath.Base(file), line)
}

// usable says whether the publisher was opened.
func (p *Publisher) usable() error {
	if p == nil || p.batcher == nil {
		return errNoPublisher
	}
	return nil
}

// usable says whether the Tx was made as it must be and has not ended.
func (t *Tx) usable() error {
	if t == nil || t.exec == nil && t.p == nil {
		return errNoTx
	}
	if err := t.p.usable(); err != nil {
		return err
	}
	if isNil(t.exec) {
		return errNoHandle
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return errEnded
	}
	return nil
}

// isNil finds also a nil pointer inside an interface, as of a *sql.Tx whose BeginTx failed.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	rv := reflect.ValueOf(v)
	return rv.Kind() == reflect.Pointer && rv.IsNil()
}

// Refuse makes [Tx.Commit] roll back and return err, as a failed [Tx.Publish] does, unless
// the savepoint in force is rolled back. It is for wrappers; the first refusal counts.
func (t *Tx) Refuse(err error) {
	if t.usable() == nil && err != nil {
		t.remember(&failure{err: err})
	}
}

func (t *Tx) remember(f *failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = append(t.failed, f)
}

// refused ends a transaction that must not be committed because of f.
func (t *Tx) refused(ctx context.Context, f *failure, envelopes []*envelope) error {
	err := &model.StoreError{Kind: model.ErrNotStored, IDs: envelopeIDs(envelopes), Err: f}
	ended, ok := t.rollBack()
	switch {
	case !ok:
		err.Kind = model.ErrTxMustRollBack
	case ended && ctx.Err() == nil: // by the handle's own Commit, perhaps
		err.Kind = model.ErrStoreUnknown
	default:
		if stayed := t.stayed(ctx, envelopes); stayed != nil {
			return fmt.Errorf("publisher: commit refused: %w: %w", stayed, f)
		}
	}
	return fmt.Errorf("publisher: commit refused: %w (to go on without a message, say so by Tx.TryPublish)", err)
}
