package compensator

import (
	"context"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/settle"
	"github.com/transmsg/transmsg/model"
)

// Store is what the compensator calls of a store. It must be safe for concurrent use.
type Store interface {
	// Services returns the services that have READY rows due now.
	Services(context.Context) ([]string, error)
	// Claim leases due rows.
	Claim(context.Context, model.Claim) (model.Claimed, error)
	// ClaimDead leases DEAD rows whose alert is owed, without payload.
	ClaimDead(context.Context, model.DeadClaim) ([]model.TransMessage, error)
	// MarkAlerted makes DEAD rows due for an alert again after so long, at least 1 ms.
	MarkAlerted(ctx context.Context, keys []model.RowKey, next time.Duration) (int, error)
	// ClaimAlerts leases alerts that are owed for READY rows, which come without payload.
	ClaimAlerts(context.Context, model.DeadClaim) ([]model.DueAlert, error)
	// MarkAlerts makes them due again after so long, at least 1 ms.
	MarkAlerts(ctx context.Context, keys []model.AlertKey, next time.Duration) (int, error)
	// SweepAlerts deletes at most so many of those whose row is gone, DEAD, replayed or edited.
	SweepAlerts(ctx context.Context, most int) (int, error)
	// Extend gives rows whose send is out a new lease, where nobody took them.
	Extend(ctx context.Context, held []model.Held, lease time.Duration) (int, error)
	// Stats returns figures of every service where service is empty.
	Stats(ctx context.Context, service string) ([]model.Stats, error)
	// PurgeEvents and PurgeDead delete at most so many events, and DEAD rows, by age.
	PurgeEvents(ctx context.Context, olderThan time.Duration, most int) (int, error)
	PurgeDead(ctx context.Context, olderThan time.Duration, most int) (int, error)
	// PurgeInbox deletes at most so many records of what consumers have dealt with, by age.
	PurgeInbox(ctx context.Context, olderThan time.Duration, most int) (int, error)
	settle.Store
}

// Letters is what the compensator calls of a store that keeps dead letters. It must be safe for concurrent use.
type Letters interface {
	// ClaimLetters leases dead letters that wait and whose alert is owed, without content.
	ClaimLetters(context.Context, model.DeadClaim) ([]model.DeadLetter, error)
	// MarkLetters makes them due for an alert again after so long, at least 1 ms.
	MarkLetters(ctx context.Context, keys []model.RowKey, next time.Duration) (int, error)
	// LetterGroups counts dead letters by group.
	LetterGroups(context.Context, model.LetterFilter) ([]model.LetterGroup, error)
	// PurgeLetters deletes at most so many dead letters, by age.
	PurgeLetters(ctx context.Context, olderThan time.Duration, most int) (int, error)
}

// Sender is what the compensator calls of the AMQP engine. It must be safe for
// concurrent use.
type Sender interface {
	// Ready reports whether a message handed over now can be sent.
	Ready() bool
	// FrameMax is the frame size in force, in bytes.
	FrameMax() int
	// ConfirmTimeout is how long a confirm may take before the outcome is unknown.
	ConfirmTimeout() time.Duration
	// TryReserve takes room for n messages of so many bytes in all, or none.
	TryReserve(n int, bytes int64) bool
	// Reserve is TryReserve that waits for room, and for Ready, until ctx ends.
	Reserve(ctx context.Context, n int, bytes int64) error
	// Release gives back room that was not used by Send.
	Release(n int, bytes int64)
	// Waits reports whether Send would defer a message, since its exchange is refused or its
	// route not confirmed.
	Waits(exchange, routingKey string) (why model.Outcome, waits bool)
	// OnRefusal calls f for each exchange that is refused and its end, until stop is called.
	OnRefusal(f func(confirms.Refusal)) (stop func())
	// Held calls f for each send that is out on a connection that the broker blocks.
	Held(f func(confirms.Handler))
	// Send never blocks, uses reserved room and calls the handler's Done exactly once.
	Send(confirms.Send)
}
