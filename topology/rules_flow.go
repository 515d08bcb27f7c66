package topology

import (
	"slices"
	"strings"
)

func flowRules() []rule {
	return []rule{
		{
			"fanout-copies", "one full queue of several makes a copy in the others at each try", ViewPublisher, false,
			whole, fanoutCopies,
		},
		{
			"ttl-cycle", "a message that expires in a circle of queues is dropped in silence", ViewConsumer, false,
			whole, ttlCycle,
		},
		{
			"alternate-exchange", "an unroutable message counts as sent", ViewPublisher, false,
			[]Part{PartExchanges, PartArguments, PartBindings, PartPolicies},
			alternateExchange,
		},
	}
}

// fanoutCopies: the broker nacks a message that one queue refused, although the others have it; each repeat is one
// more copy there.
func fanoutCopies(l *look) []Finding {
	var out []Finding
	for _, entry := range l.entries {
		ways := l.paths(entry)
		for _, way := range ways {
			full := way[len(way)-1].Destination
			q, ok := l.Queues[full]
			if !ok || !l.canRefuse(q) {
				continue
			}
			others := map[string]bool{}
			for _, other := range ways {
				if to := other[len(other)-1].Destination; to != full && l.together(way, other) {
					others[to] = true
				}
			}
			if names := l.known(others); len(names) > 0 {
				out = append(out, l.found("exchange "+entry, "queue %s refuses messages when it is full, and %s "+
					"gets one more copy at each try; give it an exchange of its own, or no limit",
					full, strings.Join(names, ", ")))
			}
		}
	}
	return out
}

// canRefuse tells whether a queue can be full and refuse.
func (l *look) canRefuse(q Queue) bool {
	if q.Type() == typeStream || !refuses(q.Type(), l.overflow(q)) {
		return false
	}
	return slices.ContainsFunc(lengths, func(limit string) bool { return l.queueSetting(q, limit) != nil })
}

// ttlCycle follows messages that nobody takes: from a queue with a TTL to where its dead letters go. The broker drops
// a dead letter that comes to a queue for the second time without a rejection in between.
func ttlCycle(l *look) []Finding {
	next := map[string][]string{}
	for name, q := range l.Queues {
		if l.queueSetting(q, setTTL) != nil {
			_, next[name], _ = l.Broker.letters(q)
		}
	}
	var out []Finding
	for _, start := range keysOf(anyMap(next), nil) {
		if circle := circleFrom(start, next); circle != nil && start == slices.Min(circle) && l.mine(circle) {
			out = append(out, l.found("queue "+start, "messages that expire go round and are dropped in silence: %s; "+
				"one of the queues must have no message-ttl", strings.Join(append(circle, start), " -> ")))
		}
	}
	return out
}

// mine tells whether a message of ours can come to the circle.
func (l *look) mine(circle []string) bool {
	return slices.ContainsFunc(circle, func(name string) bool {
		return slices.Contains(l.targets, name) || slices.Contains(l.letters, name)
	})
}

func anyMap(m map[string][]string) map[string]any {
	out := map[string]any{}
	for k := range m {
		out[k] = nil
	}
	return out
}

// circleFrom is a way from start back to it, nil for none.
func circleFrom(start string, next map[string][]string) []string {
	seen := map[string]bool{}
	var walk func(at string, way []string) []string
	walk = func(at string, way []string) []string {
		for _, to := range next[at] {
			if to == start {
				return way
			}
			if seen[to] {
				continue
			}
			seen[to] = true
			if circle := walk(to, append(slices.Clone(way), to)); circle != nil {
				return circle
			}
		}
		return nil
	}
	return walk(start, []string{start})
}

func alternateExchange(l *look) []Finding {
	var out []Finding
	for _, name := range l.reached(l.entries) {
		if to := l.exchangeSetting(l.Exchanges[name], setAlternate); to != nil {
			out = append(out, l.found("exchange "+name,
				"an alternate exchange takes what no queue wants, so that it counts as sent; remove %v", to))
		}
	}
	return out
}
