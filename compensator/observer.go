package compensator

import (
	"time"

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

// withDefaults fills what is nil, so that call sites need no check.
func (o Observer) withDefaults() Observer {
	if o.RunStart == nil {
		o.RunStart = func() {}
	}
	if o.RunEnd == nil {
		o.RunEnd = func(RunStats) {}
	}
	if o.RunSkipped == nil {
		o.RunSkipped = func(string) {}
	}
	if o.LockLost == nil {
		o.LockLost = func(error) {}
	}
	if o.LockService == nil {
		o.LockService = func(bool) {}
	}
	if o.Outcome == nil {
		o.Outcome = func(string, model.Outcome) {}
	}
	if o.Settled == nil {
		o.Settled = func(*model.TransMessage, model.Outcome, model.Status) {}
	}
	if o.LeaseConflict == nil {
		o.LeaseConflict = func(string) {}
	}
	if o.Restored == nil {
		o.Restored = func(string, string) {}
	}
	if o.StoreError == nil {
		o.StoreError = func(string, error) {}
	}
	if o.Breaker == nil {
		o.Breaker = func(string, string, bool) {}
	}
	if o.Alert == nil {
		o.Alert = func(Alert, bool) {}
	}
	if o.Purged == nil {
		o.Purged = func(string, int) {}
	}
	return o
}
