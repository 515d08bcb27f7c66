package confirms

import (
	"time"

	"github.com/transmsg/transmsg/internal/fanout"
	"github.com/transmsg/transmsg/model"
)

// Observer is told of state changes of the publishing connection; ChannelClosed and Answered
// are also of the one for sends that go alone. Each func may be nil, is called from an
// engine goroutine, one at a time per Sender except ChannelClosed and Answered, and
// must not block.
type Observer struct {
	// Connected: a connection is up and sending can start.
	Connected func(addr string, generation uint64)
	// Disconnected: the connection of this generation ended; err says why.
	Disconnected func(generation uint64, err error)
	// Blocked: the broker blocked the connection (an alarm), or released it.
	Blocked func(blocked bool, reason string)
	// ChannelClosed: the broker closed a channel with an AMQP code such as 404.
	ChannelClosed func(code int, text string)
	// Answered: the broker acked, nacked or returned a send so long after it was written;
	// time in which the broker blocked the connection does not count. Called for every
	// message, also for answers that came too late, several at a time.
	Answered func(kind model.OutcomeKind, elapsed time.Duration)
}

// joined calls each of the observers for what it listens to; no function of it is nil.
func joined(all []Observer) Observer {
	return Observer{
		Connected:     fanout.Call2(all, func(o Observer) func(string, uint64) { return o.Connected }),
		Disconnected:  fanout.Call2(all, func(o Observer) func(uint64, error) { return o.Disconnected }),
		Blocked:       fanout.Call2(all, func(o Observer) func(bool, string) { return o.Blocked }),
		ChannelClosed: fanout.Call2(all, func(o Observer) func(int, string) { return o.ChannelClosed }),
		Answered: fanout.Call2(all, func(o Observer) func(model.OutcomeKind, time.Duration) {
			return o.Answered
		}),
	}
}
