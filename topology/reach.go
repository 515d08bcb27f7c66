package topology

import (
	"maps"
	"slices"

	"github.com/transmsg/transmsg/model"
)

// defaultExchange is the name of the exchange that leads to each queue by its name.
const defaultExchange = ""

// index notes the bindings by their source. The default exchange's are made of the queues.
func (b *Broker) index() {
	b.from = map[string][]Binding{}
	for _, each := range b.Bindings {
		if each.Source != defaultExchange {
			b.from[each.Source] = append(b.from[each.Source], each)
		}
	}
}

// reached are the exchanges and those bound behind them, however far: a message passes through all.
func (b *Broker) reached(exchanges []string) []string {
	seen := map[string]bool{}
	for more := slices.Clone(exchanges); len(more) > 0; more = more[1:] {
		if seen[more[0]] {
			continue
		}
		seen[more[0]] = true
		for _, next := range b.from[more[0]] {
			if next.ToExchange {
				more = append(more, next.Destination)
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// bound are the queues that what is published to the exchanges can end in, whatever the key.
func (b *Broker) bound(exchanges []string) []string {
	queues := map[string]bool{}
	for _, name := range b.reached(exchanges) {
		for _, next := range b.from[name] {
			if !next.ToExchange {
				queues[next.Destination] = true
			}
		}
	}
	return b.known(queues)
}

// known are those of the names that are queues, sorted.
func (b *Broker) known(names map[string]bool) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if _, ok := b.Queues[name]; ok {
			out = append(out, name)
		}
	}
	return out
}

// routed are the queues that a message with this key can end in. An exchange that has no place for it hands it to its
// alternate exchange.
func (b *Broker) routed(exchange, key string) []string {
	if exchange == defaultExchange {
		return b.known(map[string]bool{key: true})
	}
	queues, seen := map[string]bool{}, map[string]bool{}
	var walk func(string)
	walk = func(name string) {
		e, ok := b.Exchanges[name]
		if !ok || seen[name] {
			return
		}
		seen[name] = true
		taken := false
		for _, next := range b.from[name] {
			if !takes(e, next, key) {
				continue
			}
			taken = true
			if next.ToExchange {
				walk(next.Destination)
			} else {
				queues[next.Destination] = true
			}
		}
		if alternate, ok := b.exchangeSetting(e, setAlternate).(string); ok && !taken {
			walk(alternate)
		}
	}
	walk(exchange)
	return b.known(queues)
}

// letters are the queues that a queue's dead letters can end in. Without a key of its own a dead letter has that of
// the message, which may be any.
func (b *Broker) letters(q Queue) (exchange string, queues []string, ok bool) {
	exchange, ok = b.queueSetting(q, setDeadExchange).(string)
	if !ok {
		return "", nil, false
	}
	if key, given := b.queueSetting(q, setDeadKey).(string); given {
		return exchange, b.routed(exchange, key), true
	}
	if exchange == defaultExchange { // by the message's own key, which names no queue, or this one again
		return exchange, nil, true
	}
	entries := []string{exchange}
	if e, found := b.Exchanges[exchange]; found {
		if alternate, given := b.exchangeSetting(e, setAlternate).(string); given {
			entries = append(entries, alternate)
		}
	}
	return exchange, b.bound(entries), true
}

// stepOf is the work queue of whose ladder the queue is a step, by its name.
func (b *Broker) stepOf(name string) (work string, ok bool) {
	for candidate := range b.Queues {
		if model.IsStepOf(name, candidate) && len(candidate) > len(work) {
			work, ok = candidate, true
		}
	}
	return work, ok
}
