package consumer

import "time"

// State is what a queue's consumer does at the moment.
type State string

// The states.
const (
	// StateConsuming: messages are taken.
	StateConsuming State = "consuming"
	// StateConnecting: there is no connection, or no channel yet.
	StateConnecting State = "connecting"
	// StateMissing: the broker refuses the subscription (no such queue, no right) or ended it. It is tried again.
	StateMissing State = "missing"
	// StateUnavailable: the handler says that what it depends on is away.
	StateUnavailable State = "unavailable"
	// StateStuck: a copy is not confirmed: a queue of the ladder or the dead-letter exchange is missing, full or
	// refused. No new message is taken.
	StateStuck State = "stuck"
	// StatePaused: an operator paused it.
	StatePaused State = "paused"
	// StateStopped: the consumer has ended or not begun.
	StateStopped State = "stopped"
)

// QueueHealth is the state of one queue.
type QueueHealth struct {
	Queue string
	State State
	// Since is when the state began.
	Since time.Time
	// Reason says what is missing or away, in words; never a secret, and nothing of a message's body.
	Reason string
	// Alone says that messages which were delivered before are handled one at a time.
	Alone bool
}

// Healthy reports whether nothing needs an operator: messages are taken, or somebody paused the queue.
func (h QueueHealth) Healthy() bool { return h.State == StateConsuming || h.State == StatePaused }
