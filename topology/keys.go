package topology

import (
	"slices"
	"strings"
)

// topicMatches tells whether a topic binding takes a routing key: * is one word, # is none or more.
func topicMatches(pattern, key string) bool { return wordsMeet(words(pattern), words(key), false) }

// topicsOverlap tells whether some routing key is taken by both topic bindings.
func topicsOverlap(a, b string) bool { return wordsMeet(words(a), words(b), true) }

// words are those of a routing key. An empty one has none.
func words(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// wordsMeet compares two lists of words from their ends, so that many # cost no more than few. With both set, * and #
// are signs in b as well.
func wordsMeet(a, b []string, both bool) bool {
	meet := make([]bool, len(b)+1) // meet[j]: a[i:] and b[j:] do
	for i := len(a); i >= 0; i-- {
		below := slices.Clone(meet) // the same for a[i+1:]
		for j := len(b); j >= 0; j-- {
			switch {
			case i < len(a) && a[i] == "#":
				meet[j] = below[j] || j < len(b) && meet[j+1]
			case both && j < len(b) && b[j] == "#":
				meet[j] = meet[j+1] || i < len(a) && below[j]
			case i == len(a) || j == len(b):
				meet[j] = i == len(a) && j == len(b)
			default:
				meet[j] = below[j+1] && (a[i] == "*" || both && b[j] == "*" || a[i] == b[j])
			}
		}
	}
	return meet[0]
}

// takes tells whether a binding of this exchange takes a message with the key. Where it depends on more than the key
// the answer is yes: it may.
func takes(e Exchange, b Binding, key string) bool {
	switch e.Type {
	case typeDirect:
		return b.Key == key
	case typeTopic:
		return topicMatches(b.Key, key)
	}
	return true
}

// overlap tells whether one message can pass through both bindings, wherever they are.
func (b *Broker) overlap(x, y Binding) bool {
	from, to := b.Exchanges[x.Source], b.Exchanges[y.Source]
	if from.Type == typeConsistentHash && x.Source == y.Source {
		return x.Destination == y.Destination && x.ToExchange == y.ToExchange // each message takes one
	}
	literal := func(e Exchange) bool { return e.Type == typeDirect }
	pattern := func(e Exchange) bool { return e.Type == typeTopic }
	switch {
	case literal(from) && literal(to):
		return x.Key == y.Key
	case pattern(from) && pattern(to):
		return topicsOverlap(x.Key, y.Key)
	case literal(from) && pattern(to):
		return topicMatches(y.Key, x.Key)
	case pattern(from) && literal(to):
		return topicMatches(x.Key, y.Key)
	}
	return true
}

// path is the bindings from an exchange to a queue, in order.
type path []Binding

// together tells whether one message can take both paths.
func (b *Broker) together(x, y path) bool {
	for _, first := range x {
		if slices.ContainsFunc(y, func(second Binding) bool { return !b.overlap(first, second) }) {
			return false
		}
	}
	return true
}

// maxPaths bounds the paths from one exchange that are compared. Beyond it the rest is left out: real brokers have a
// handful.
const maxPaths = 1000

// paths are the ways from an exchange to queues, through each exchange once.
func (b *Broker) paths(exchange string) []path {
	var out []path
	var walk func(from string, so path)
	walk = func(from string, so path) {
		for _, next := range b.from[from] {
			way := append(slices.Clone(so), next)
			switch {
			case len(out) == maxPaths:
				return
			case !next.ToExchange:
				out = append(out, way)
			case !slices.ContainsFunc(so, func(p Binding) bool { return p.Source == next.Destination }):
				walk(next.Destination, way)
			}
		}
	}
	walk(exchange, nil)
	return out
}
