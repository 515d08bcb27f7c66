package compensator

import (
	"time"

	"github.com/transmsg/transmsg/internal/fanout"
	"github.com/transmsg/transmsg/model"
)

// Observer is told what happens. Every field may be nil. The functions are called from
// the compensator's and the engine's goroutines, several at a time; they must not block
// and must not panic.
type Observer struct {
	// RunStart: a run holds its lock slot and begins to look for due rows.
	RunStart func()
	// RunEnd: it ended.
	RunEnd func(RunStats)
	// RunSkipped: a run was due and did not begin: [SkipNotReady], [SkipLocked] or
	// [SkipLock].
	RunSkipped func(reason string)
	// LockLost: a run's slot was lost or could not be renewed, in the middle of the run, which
	// then claims no more, or while its last outcomes came in.
	LockLost func(cause error)
	// LockService: whether the lock service answered at the last try. Called where the Locker
	// has a method Answers, as that of package redislocker has.
	LockService func(answers bool)
	// Outcome: one send, or one row that was refused unsent, has its outcome.
	Outcome func(service string, o model.Outcome)
	// Settled: the outcome has been written; Status and counts are the row's new ones.
	Settled func(row *model.TransMessage, o model.Outcome, status model.Status)
	// LeaseConflict: the row belonged to somebody else by the time its outcome was
	// written.
	LeaseConflict func(service string)
	// Restored: the row of a message that came back was gone and has been inserted again. If
	// another process had delivered it, it is sent once more.
	Restored func(service, id string)
	// StoreError: a call of the store failed: op is "claim", "services", "identity", "delete", "settle",
	// "restore", "late-ack", "claim-dead", "claim-alerts", "groups", "mark-alerted", "mark-alerts", "stats",
	// "purge-events", "purge-dead", "purge-inbox" or "purge-alerts". It is tried again.
	StoreError func(op string, err error)
	// Breaker: the broker refuses an exchange (open), or takes it again, or no row for it
	// comes to this process any more. Of a topic of it that is refused topic is the routing
	// key; else it is empty.
	Breaker func(exchange, topic string, open bool)
	// Alert: the Alerter was called; delivered is false when it failed. The alert is tried
	// again.
	Alert func(a Alert, delivered bool)
	// Purged: so many events or DEAD rows were deleted by age, or alerts whose row needs none any
	// more: what is "events", "dead" or "alerts".
	Purged func(what string, n int)
}

// Reasons of Observer.RunSkipped.
const (
	SkipNotReady = "sender-not-ready" // no healthy channel: nothing is claimed
	SkipLocked   = "locked"           // the other replicas hold every slot
	SkipLock     = "lock-unavailable" // the lock service does not answer and the locker pauses
)

// RunStats are the counts of one run.
type RunStats struct {
	Claims   int // claim statements
	Rows     int // rows claimed
	Sent     int // handed to the sender
	Acked    int // confirmed and routed
	Failed   int // nacked, returned or refused, also unsent
	Unknown  int
	Deferred int // handed back unsent, due at once
	Waiting  int // handed back unsent, with a delay: their exchange is broken
	Duration time.Duration
	// Cause is why the run ended before nothing was due; nil when it did not.
	Cause error
}

// joined calls each of the observers for what it listens to; no function of it is nil.
func joined(all []Observer) Observer {
	return Observer{
		RunStart:    fanout.Call0(all, func(o Observer) func() { return o.RunStart }),
		RunEnd:      fanout.Call1(all, func(o Observer) func(RunStats) { return o.RunEnd }),
		RunSkipped:  fanout.Call1(all, func(o Observer) func(string) { return o.RunSkipped }),
		LockLost:    fanout.Call1(all, func(o Observer) func(error) { return o.LockLost }),
		LockService: fanout.Call1(all, func(o Observer) func(bool) { return o.LockService }),
		Outcome:     fanout.Call2(all, func(o Observer) func(string, model.Outcome) { return o.Outcome }),
		Settled: fanout.Call3(all, func(o Observer) func(*model.TransMessage, model.Outcome, model.Status) {
			return o.Settled
		}),
		LeaseConflict: fanout.Call1(all, func(o Observer) func(string) { return o.LeaseConflict }),
		Restored:      fanout.Call2(all, func(o Observer) func(string, string) { return o.Restored }),
		StoreError:    fanout.Call2(all, func(o Observer) func(string, error) { return o.StoreError }),
		Breaker:       fanout.Call3(all, func(o Observer) func(string, string, bool) { return o.Breaker }),
		Alert:         fanout.Call2(all, func(o Observer) func(Alert, bool) { return o.Alert }),
		Purged:        fanout.Call2(all, func(o Observer) func(string, int) { return o.Purged }),
	}
}
