package model

import (
	"errors"
	"fmt"
)

// The errors a caller acts on. Each says what is certain and what to do next.
var (
	// ErrInvalid: the message can never be stored or sent as it is. Nothing was
	// stored. Correct it; repeating it unchanged cannot help. The error is an
	// [*InvalidError].
	ErrInvalid = errors.New("invalid message")
	// ErrNotStored: it is certain that no row was stored. Repeat when the cause is gone.
	ErrNotStored = errors.New("not stored")
	// ErrStoreUnknown: the row may or may not be stored (the connection broke or the
	// deadline passed while the INSERT or the commit ran). Repeat with the same ids: that makes one row
	// whichever was the case. The error is a [*StoreError], which carries the ids.
	ErrStoreUnknown = errors.New("may or may not be stored")
	// ErrConflict: a row with this id exists and its content differs. Nothing was
	// stored; in a transaction of the caller the other messages of the call are.
	// The id was used for two messages: a mistake in how ids are made.
	ErrConflict = errors.New("the id exists with other content")
	// ErrDead: a row with this id and this content exists and is DEAD: it is out of
	// attempts and waits for an operator. Nothing was stored. Replay or discard it.
	ErrDead = errors.New("the id exists and is DEAD")
	// ErrTxMustRollBack: a statement on the caller's transaction failed. The
	// transaction may be broken or half gone: roll it back and run it again as a whole.
	// The driver's own error is wrapped unchanged.
	ErrTxMustRollBack = errors.New("the transaction must be rolled back")
	// ErrRowsMissing: after the commit these rows are not in the table, though nobody else
	// can have had them: the transaction or a savepoint was rolled back after all, or it ran
	// on another database. The store has looked on the primary. They are not sent. The error
	// is a [*StoreError], which carries their ids.
	ErrRowsMissing = errors.New("rows are missing after commit")
	// ErrNotAcked: the first send of a stored message ended in another way than acked. The
	// row is kept and the compensator sends it again.
	ErrNotAcked = errors.New("not acked")
	// ErrNotDrained: Close gave up waiting. The rows concerned are safe; the compensator
	// sends them. The error text says how many.
	ErrNotDrained = errors.New("not drained")
	// ErrClosed: the publisher, sender or store was closed. Nothing was stored.
	ErrClosed = errors.New("closed")
	// ErrNotFound: there is no row with this id.
	ErrNotFound = errors.New("no such row")
	// ErrLeased: the row is READY and being sent at the moment, or was and nobody has told the
	// outcome: so it counts until two minutes after its lease. Wait for its outcome.
	ErrLeased = errors.New("the row is being sent")
	// ErrChanged: the row was edited or replayed since it was read. Nothing was changed. Read
	// it again and decide anew.
	ErrChanged = errors.New("the row was changed since it was read")
	// ErrCorrupt: a stored row's properties cannot be decoded. It can never be sent as
	// it is.
	ErrCorrupt = errors.New("corrupt properties")
	// ErrNewerCodec: a stored row's properties were written by a newer version of this
	// library. Leave the row alone and upgrade.
	ErrNewerCodec = errors.New("properties written by a newer version")
)

// InvalidError says which field of a message is refused, why, and where the bound
// lies. It is [ErrInvalid].
type InvalidError struct {
	// Field is the field as the caller knows it, such as "routing_key" or
	// `headers["retry"]`.
	Field string
	// Reason is what is wrong, with length and limit where there is one.
	Reason string
	// Index is the position in a batch, or -1 for a single message.
	Index int
}

// Error implements error.
func (e *InvalidError) Error() string {
	if e.Index >= 0 {
		return fmt.Sprintf("message %d: %s %s", e.Index, e.Field, e.Reason)
	}
	return e.Field + " " + e.Reason
}

// Unwrap makes errors.Is(err, ErrInvalid) true.
func (*InvalidError) Unwrap() error { return ErrInvalid }

// StoreError is a failure to store: Kind is [ErrNotStored], [ErrStoreUnknown],
// [ErrConflict], [ErrDead], [ErrTxMustRollBack] or [ErrRowsMissing]; errors.Is sees
// both it and the cause.
type StoreError struct {
	// Kind is the sentinel that tells the caller what to do.
	Kind error
	// IDs are the ids of the messages concerned, to repeat with or to look for.
	IDs []string
	// Err is the cause, unchanged; nil where there is none.
	Err error
}

// Error implements error. At most three ids are shown.
func (e *StoreError) Error() string {
	s := e.Kind.Error()
	switch n := len(e.IDs); {
	case n > 3:
		s = fmt.Sprintf("%s (ids %v and %d more)", s, e.IDs[:3], n-3)
	case n > 0:
		s = fmt.Sprintf("%s (ids %v)", s, e.IDs)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the sentinel and the cause.
func (e *StoreError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// BusyError says that a write left out rows that somebody else holds locked, and did the
// rest. Write those again later.
type BusyError struct {
	// IDs are the rows left out.
	IDs []string
	// Err is the server's error, or nil where the rows were passed over.
	Err error
}

// Error implements error. At most three ids are shown.
func (e *BusyError) Error() string {
	s := fmt.Sprintf("%d rows are locked by somebody else (%v)", len(e.IDs), e.IDs[:min(3, len(e.IDs))])
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the server's error.
func (e *BusyError) Unwrap() error { return e.Err }

// UnreadError says that a claim was given up because the content of its rows could not be
// read, or not in time; none of them was claimed.
type UnreadError struct {
	// ID is the first of the rows, and Rows their number.
	ID   string
	Rows int
	Err  error
}

// Error implements error.
func (e *UnreadError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnreadError) Unwrap() error { return e.Err }
