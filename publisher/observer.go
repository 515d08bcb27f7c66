package publisher

import (
	"time"

	"github.com/transmsg/transmsg/internal/fanout"
	"github.com/transmsg/transmsg/model"
)

// Observer is a set of optional functions. They are called from the publisher's and the
// sender's goroutines, concurrently, and must not block.
type Observer struct {
	// Outcome is called once for each receipt that completes, with the time since
	// Publish stored the row (zero for a receipt that was deferred at once).
	Outcome func(id string, o model.Outcome, elapsed time.Duration)
	// Published is called once for each call of Publish, PublishBatch and Tx.Publish that
	// asked the store, with how long the store took and the call's error.
	Published func(elapsed time.Duration, err error)
	// Restored is called when the row of a message that came back was gone and has been
	// inserted again.
	Restored func(id string)
	// StoreError is called for each failed write of outcomes (op "delete", "settle",
	// "restore" or "late-ack"; each is tried again) and failed read of the store (op "read-back",
	// "renew" or "oldest-due"), and for a longer lease that was not written in an alarm (op "extend").
	StoreError func(op string, err error)
	// Lagging is called about once a minute while the service's oldest due row has
	// been due for longer than 5 minutes: most often no compensator runs.
	Lagging func(oldestDue time.Duration)
}

// joined calls each of the observers for what it listens to; no function of it is nil.
func joined(all []Observer) Observer {
	return Observer{
		Outcome: fanout.Call3(all, func(o Observer) func(string, model.Outcome, time.Duration) {
			return o.Outcome
		}),
		Published:  fanout.Call2(all, func(o Observer) func(time.Duration, error) { return o.Published }),
		Restored:   fanout.Call1(all, func(o Observer) func(string) { return o.Restored }),
		StoreError: fanout.Call2(all, func(o Observer) func(string, error) { return o.StoreError }),
		Lagging:    fanout.Call1(all, func(o Observer) func(time.Duration) { return o.Lagging }),
	}
}
