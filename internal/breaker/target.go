package breaker

import "github.com/transmsg/transmsg/model"

// Kind says what of an exchange is broken.
type Kind uint8

// The kinds.
const (
	// Exchange: all of it is refused.
	Exchange Kind = iota + 1
	// Topic: one routing key is refused, by a topic permission.
	Topic
	// Route: sends with one routing key got no confirm in time.
	Route
)

// Target is what messages cannot be sent to.
type Target struct {
	Kind     Kind
	Exchange string
	Key      string // of a topic or route
}

// Alone says that a probe of the target goes through a connection of its own: it may be
// refused again, which closes a channel. A probe of a route closes nothing.
func (t Target) Alone() bool { return t.Kind != Route }

// targets are those that a message may belong to, in the order in which the broker looks.
func targets(exchange, key string) [3]Target {
	return [...]Target{
		{Kind: Exchange, Exchange: exchange},
		{Kind: Topic, Exchange: exchange, Key: key},
		{Kind: Route, Exchange: exchange, Key: key},
	}
}

// blame says which target an outcome accuses, if any.
func blame(exchange, key string, o model.Outcome) (Target, bool) {
	switch {
	case o.Kind == model.Unknown && o.Code == model.CodeTimeout:
		return Target{Kind: Route, Exchange: exchange, Key: key}, true
	case o.Kind == model.Refused && (o.Code == model.CodeNotFound || o.Code == model.CodeAccessRefused):
	case o.Kind == model.Unknown && o.Code == model.CodeSuspect &&
		(o.Reply == replyNotFound || o.Reply == replyAccessRefused):
	default:
		return Target{}, false
	}
	switch o.Refused {
	case model.TopicRight:
		return Target{Kind: Topic, Exchange: exchange, Key: key}, true
	case model.OtherTopicRight: // of the suspects that were in flight together only the named topic is guilty
		return Target{}, false
	default:
		return Target{Kind: Exchange, Exchange: exchange}, true
	}
}

// AMQP's reply codes for what concerns an exchange.
const (
	replyAccessRefused = 403
	replyNotFound      = 404
)
