package consumer

import (
	"context"
	"errors"
)

// Handler handles one message. ctx ends with [Queue.Deadline], when the delivery is lost (its connection or channel
// ended, and the broker gives the message to somebody) and, some time after the consumer was told to stop, with
// [Config.DrainTimeout]. What it answers decides what becomes of the message; see the package's page. It may be called
// by several goroutines at once, for different messages.
type Handler func(ctx context.Context, m *Message) error

// answerKind is what an error of a handler asks for.
type answerKind uint8

const (
	answerFailed answerKind = iota
	answerPermanent
	answerUnavailable
	answerBusy
	answerSkipped
)

// answer is an error with what it asks for.
type answer struct {
	kind answerKind
	err  error
}

func (a *answer) Error() string { return a.err.Error() }

func (a *answer) Unwrap() error { return a.err }

// Permanent says that no retry can help: the message is a dead letter at once. A nil err is an error without a text.
func Permanent(err error) error { return newAnswer(answerPermanent, err) }

// Unavailable says that what the handler depends on is away, whatever the message: no attempt is counted, the queue
// takes no new messages, and one message at a time tries again with backoff until an answer is another one.
func Unavailable(err error) error { return newAnswer(answerUnavailable, err) }

// Busy says that somebody else is at this very message (a lock was not had in time, the transaction was chosen as a
// deadlock's victim) and that nothing was done: no attempt is counted, and it is tried again after a backoff.
func Busy(err error) error { return newAnswer(answerBusy, err) }

// Skipped says that the effect of the message was there already, such as "done": it is acked and counted as skipped.
func Skipped(reason string) error { return newAnswer(answerSkipped, errors.New(reason)) }

func newAnswer(kind answerKind, err error) error {
	if err == nil {
		err = errNoCause
	}
	return &answer{kind: kind, err: err}
}

var errNoCause = errors.New("no cause was given")

// IsPermanent reports whether err, or what it wraps, came from [Permanent].
func IsPermanent(err error) bool { return kindOf(err) == answerPermanent }

// IsUnavailable reports whether err, or what it wraps, came from [Unavailable].
func IsUnavailable(err error) bool { return kindOf(err) == answerUnavailable }

// IsBusy reports whether err, or what it wraps, came from [Busy].
func IsBusy(err error) bool { return kindOf(err) == answerBusy }

// IsSkipped reports whether err, or what it wraps, came from [Skipped].
func IsSkipped(err error) bool { return kindOf(err) == answerSkipped }

// kindOf returns what an error asks for: the outermost word counts.
func kindOf(err error) answerKind {
	var a *answer
	if errors.As(err, &a) {
		return a.kind
	}
	return answerFailed
}

// The causes with which a handler's context ends, besides its deadline.
var (
	// ErrLost: the channel that delivered the message is gone. The broker delivers it again, perhaps to somebody
	// else; whatever the handler answers now is dropped.
	ErrLost = errors.New("the delivery is lost: its channel has ended")
	// ErrStopping: the consumer was told to stop and its DrainTimeout is over. The message is given back.
	ErrStopping = errors.New("the consumer is stopping")
)
