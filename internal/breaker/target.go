package breaker

import (
	"strings"

	"github.com/transmsg/transmsg/model"
)

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
	case o.Kind == model.Unknown && o.Code == model.CodeSuspect && isExchangeCause(o.Text):
	default:
		return Target{}, false
	}
	if !strings.Contains(o.Text, "access to topic '") {
		return Target{Kind: Exchange, Exchange: exchange}, true
	}
	// Of the suspects that were in flight together only the named topic is guilty.
	named := strings.Contains(o.Text, "access to topic '"+key+"' in exchange")
	return Target{Kind: Topic, Exchange: exchange, Key: key}, named
}

// isExchangeCause reports whether a channel was closed because of an exchange or of the
// rights on it. The text begins with the reply code.
func isExchangeCause(text string) bool {
	return strings.HasPrefix(text, string(model.CodeNotFound)) ||
		strings.HasPrefix(text, string(model.CodeAccessRefused))
}
