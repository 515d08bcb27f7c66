package model

// The headers of copies that a consumer makes: in the ladder and as dead letters. Integers are 64-bit, times Unix
// milliseconds by the consumer's clock.
const (
	// HeaderAttempts counts the attempts that failed.
	HeaderAttempts = "transmsg-attempts"
	// HeaderFirstFailedAt and HeaderFirstError tell of the first failure, HeaderFailedAt and HeaderError of the last.
	// The texts are cleaned and at most [MaxErrorText] bytes.
	HeaderFirstFailedAt = "transmsg-first-failed-at"
	HeaderFirstError    = "transmsg-first-error"
	HeaderFailedAt      = "transmsg-failed-at"
	HeaderError         = "transmsg-error"
	// HeaderExchange and HeaderRoutingKey are those of the first delivery, HeaderQueue is the work queue.
	HeaderExchange   = "transmsg-exchange"
	HeaderRoutingKey = "transmsg-routing-key"
	HeaderQueue      = "transmsg-queue"
	// HeaderExpiration is the message's own expiration, which a copy must not have: it would end a step early.
	HeaderExpiration = "transmsg-expiration"
	// HeaderCrashes counts how often the message was taken alone and its process ended.
	HeaderCrashes = "transmsg-crashes"
	// HeaderCause says why a dead letter was given up: one of the Cause constants.
	HeaderCause = "transmsg-cause"
	// HeaderRejection is a random id of the rejection that made a dead letter, a UUID. It is kept while that copy is
	// sent again.
	HeaderRejection = "transmsg-rejection"
	// HeaderReplays counts how often a message came back from the dead letters.
	HeaderReplays = "transmsg-replays"
	// HeaderKey is the business key.
	HeaderKey = "transmsg-key"
)

// The causes of dead letters that a consumer makes.
const (
	// CauseExhausted: the last attempt failed.
	CauseExhausted = "exhausted"
	// CausePermanent: the handler said that no retry can help.
	CausePermanent = "permanent"
	// CauseCrashed: its process ended each time it was handled alone.
	CauseCrashed = "crashed"
	// CauseUnreadable: it could not be handed to a handler.
	CauseUnreadable = "unreadable"
)
