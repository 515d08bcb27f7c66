package confirms

import (
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/breaker"
	"github.com/transmsg/transmsg/model"
)

// maxClockSkew is how far wall and monotonic time may drift apart since Send.Since: more
// means that the machine slept or its clock was set, and the row's lease may be over.
const maxClockSkew = time.Second

// pending is one accepted Send until its outcome, and beyond it while a late ack is
// still possible.
type pending struct {
	Send
	sender  *Sender
	role    *role
	settled atomic.Bool
	probe   *breaker.Target // what it is the breaker's probe of
	share   *share          // of its route, while it has a slot of a channel
	// unparked: its turn among the parked of its route has come; run's own.
	unparked bool

	// Set by the channel that sends it.
	dc       *amqp.DeferredConfirmation
	sentAt   time.Duration // on the session's confirmClock
	timedOut bool          // Done(unknown timeout) was called; guarded by the channel's mu
}

func (p *pending) size() int64 { return int64(len(p.Message.Body)) }

// finish reports the one outcome and gives the room back. Later calls do nothing.
func (p *pending) finish(o model.Outcome) {
	if !p.settled.CompareAndSwap(false, true) {
		return
	}
	p.sender.counts.add(o.Kind)
	p.sender.broken.Outcome(p.probe, p.Message.Exchange, p.Message.RoutingKey, o)
	p.sender.reserved.release(1, p.size())
	p.Handler.Done(o)
	p.sender.unpend()
}

func (p *pending) deferred(why string) { p.finish(notSent(why)) }

func notSent(why string) model.Outcome {
	return model.Outcome{Kind: model.Deferred, Code: model.CodeNotSent, Text: why}
}

// late reports whether it is too late, or unknowable how late it is, to send safely.
func (p *pending) late(now time.Time) bool {
	return late(now.Sub(p.Since), now.Round(0).Sub(p.Since.Round(0)), p.Within)
}

// late compares the monotonic and the wall time since the send's time began: monotonic
// time stands still while a machine sleeps, wall time jumps when it is set.
func late(elapsed, wall, within time.Duration) bool {
	return within != 0 && (elapsed > within || wall-elapsed > maxClockSkew || elapsed-wall > maxClockSkew)
}
