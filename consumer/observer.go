package consumer

import (
	"time"

	"github.com/transmsg/transmsg/internal/fanout"
)

// Result is what became of a delivery.
type Result uint8

// The results. Their zero value is none of them.
const (
	// Handled: the handler answered nil; acked.
	Handled Result = iota + 1
	// SkippedDone: the handler answered Skipped; acked.
	SkippedDone
	// Retried: a copy is in the ladder, confirmed; acked.
	Retried
	// DeadLettered: a copy went to the dead-letter exchange, confirmed; acked.
	DeadLettered
	// GivenBack: returned to the queue untouched, or without an answer about the message.
	GivenBack
	// Lost: the channel ended first; the broker delivers it again. An answer was dropped.
	Lost
	// Recounted: a suspect of the end of a process was replaced by a copy with a higher count; acked.
	Recounted
)

var resultNames = [...]string{"", "handled", "skipped", "retried", "dead-lettered", "given-back", "lost", "recounted"}

// String returns the result's word, such as "dead-lettered".
func (r Result) String() string {
	if int(r) < len(resultNames) {
		return resultNames[r]
	}
	return "unknown"
}

// Event is the end of one delivery.
type Event struct {
	Queue  string
	Result Result
	// Attempt is the message's attempt at this delivery.
	Attempt int
	// Elapsed is the handler's time; 0 where it was not called.
	Elapsed time.Duration
	// EventAge is the time since the message was stored or stamped by its publisher, by the two clocks; 0 where it
	// tells none.
	EventAge time.Duration
	// SinceFirstFailure is the time from the message's first failure to this end; 0 without a failure.
	SinceFirstFailure time.Duration
	// Cause is one of the Cause constants for DeadLettered, "" else.
	Cause string
}

// Observer is told what happens. Each func may be nil, is called from several goroutines at once and must
// not block, nor call the consumer.
type Observer struct {
	// Settled: a delivery has its end.
	Settled func(Event)
	// Answered: a handler's call has ended with this word: ok, failed, permanent, unavailable, busy, skipped, panic
	// or deadline.
	Answered func(queue, answer string, elapsed time.Duration)
	// StateChanged: a queue's state is another one.
	StateChanged func(QueueHealth)
	// Connected and Disconnected: the connection came and went.
	Connected    func(addr string, generation uint64)
	Disconnected func(generation uint64, err error)
}

// joined calls each of the observers for what it listens to; no function of it is nil.
func joined(all []Observer) Observer {
	return Observer{
		Settled:      fanout.Call1(all, func(o Observer) func(Event) { return o.Settled }),
		Answered:     fanout.Call3(all, func(o Observer) func(string, string, time.Duration) { return o.Answered }),
		StateChanged: fanout.Call1(all, func(o Observer) func(QueueHealth) { return o.StateChanged }),
		Connected:    fanout.Call2(all, func(o Observer) func(string, uint64) { return o.Connected }),
		Disconnected: fanout.Call2(all, func(o Observer) func(uint64, error) { return o.Disconnected }),
	}
}
