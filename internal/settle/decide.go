// Package settle is the one place where the outcome of a send becomes a change of its
// row, for the publisher and the compensator alike: [Decide] is the pure decision,
// [Batcher] writes decisions to the store in batches and keeps them until they are
// written.
package settle

import (
	"time"

	"github.com/transmsg/transmsg/model"
)

// Facts are what Decide needs to know of the row that was sent.
type Facts struct {
	// Attempts and Failures are the row's counts before this send.
	Attempts, Failures int
	// Age is the time since a send of it was first answered with a failure; 0 for the first.
	Age time.Duration
}

// Decision is what follows from an outcome.
type Decision struct {
	// Delete says that the broker has the message: the row goes. The other fields are
	// then zero.
	Delete bool
	// Status, Delay and the deltas are those of a [model.Settlement].
	Status                       model.Status
	Delay                        time.Duration
	AttemptsDelta, FailuresDelta int
	// Exhausted says that the attempts are used up and that the row stays READY all the same,
	// being too young: it is worth an alert.
	Exhausted bool
}

// Decide maps an outcome to what becomes of the row. It is pure: r is the random number
// for jitter, from 0 up to but not including 1.
//
//	outcome             row     attempts  failures  due after
//	acked               deleted
//	nacked, returned    READY   +1        +1        backoff
//	refused             READY   +1        +1        backoff
//	refused, permanent  DEAD    +1        +1        now (for the alert)
//	unknown             READY             +1        backoff
//	unknown by a close  READY             +1        the base delay
//	deferred            READY                       now, or Outcome.Wait
//
// A counted attempt makes a row DEAD instead that has none left and is as old as the policy's
// MinDeadAge, or as old as its MaxAge. One that has none left and is younger stays READY, due
// after the longest delay, and its alert is owed. An outcome without an answer about the message
// itself (unknown, deferred) never makes a row DEAD: an outage must not.
func Decide(o model.Outcome, f Facts, p model.Policy, r float64) Decision {
	d := Decision{Status: model.Ready}
	switch o.Kind {
	case model.Acked:
		return Decision{Delete: true}
	case model.Nacked, model.Returned, model.Refused:
		d.AttemptsDelta, d.FailuresDelta = 1, 1
		switch attempts := f.Attempts + 1; {
		case (o.Kind == model.Refused && o.Permanent) || p.GivesUp(attempts, f.Age):
			d.Status = model.Dead
		case p.Exhausted(attempts):
			d.Exhausted, d.Delay = true, p.LongestDelay(r)
		default:
			d.Delay = p.Delay(f.Failures+1, r)
		}
	case model.Unknown:
		d.FailuresDelta = 1
		if o.Code == model.CodeClosed || o.Code == model.CodeSuspect || o.Code == model.CodeWrite {
			// The link broke, not the message: due again as soon as the link may be back.
			d.Delay = p.Delay(1, r)
		} else {
			d.Delay = p.Delay(f.Failures+1, r)
		}
	case model.Deferred:
		d.Delay = o.Wait
	default: // what a later version may add: never counted, never lost
	}
	return d
}
