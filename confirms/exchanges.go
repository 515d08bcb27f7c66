package confirms

import (
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// missingFor is how long a missing exchange is remembered.
	missingFor = time.Second
	// maxExchanges bounds the memory: beyond it everything is asked again.
	maxExchanges = 4096
	// probeExchange exists in every virtual host: asking for it proves the broker alive.
	probeExchange = "amq.direct"
)

type exchangeState uint8

const (
	exchangeKnown      exchangeState = iota + 1 // exists, or could not be told: send
	exchangeMissing                             // the broker said 404
	exchangeAsked                               // the send is parked until the answer
	exchangeGateClosed                          // not asked: nothing is sent now
)

// exchanges asks for each exchange once per connection, by a passive declare on a channel
// of its own, before the first send to it: a publish to a missing exchange would close
// the publishing channel and make everything in flight on it unknown. The declare needs
// no permission and catches only 404; any other answer is no outcomeOf.
type exchanges struct {
	gate *flag

	mu      sync.Mutex
	known   map[string]struct{}
	missing map[string]missing
	parked  map[string][]*pending // by exchange asked for
	asks    []string              // not yet asked
	probing bool
	wake    chan struct{} // cap 1
}

type missing struct {
	at   time.Time
	text string
}

func newExchanges(gate *flag) *exchanges {
	return &exchanges{
		gate: gate, known: make(map[string]struct{}), missing: make(map[string]missing),
		parked: make(map[string][]*pending), wake: make(chan struct{}, 1),
	}
}

// ask says whether p's exchange exists, or parks p until that is known.
func (e *exchanges) ask(p *pending) (exchangeState, string) {
	name := p.Message.Exchange
	if name == "" {
		return exchangeKnown, "" // the default exchange exists, and a declare of it is 403
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.known[name]; ok {
		return exchangeKnown, ""
	}
	if m, ok := e.missing[name]; ok {
		if time.Since(m.at) < missingFor {
			return exchangeMissing, m.text
		}
		delete(e.missing, name)
	}
	// Looked at under mu: flush runs after the gate has closed and takes mu, so nothing
	// is parked behind its back.
	if !e.gate.get() {
		return exchangeGateClosed, ""
	}
	if len(e.parked[name]) == 0 {
		e.asks = append(e.asks, name)
		signal(e.wake)
	}
	e.parked[name] = append(e.parked[name], p)
	return exchangeAsked, ""
}

func (e *exchanges) forget(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.known, name)
}

// probe asks for an exchange that exists, if no such question is open.
func (e *exchanges) probe() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.probing {
		e.probing = true
		signal(e.wake)
	}
}

// next returns an exchange to ask for.
func (e *exchanges) next() (name string, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.asks) > 0 {
		name = e.asks[0]
		e.asks = e.asks[1:]
		return name, true
	}
	return probeExchange, e.probing
}

// answer notes the broker's answer and returns the sends that waited for it.
func (e *exchanges) answer(name string, err error) []*pending {
	e.mu.Lock()
	defer e.mu.Unlock()
	if name == probeExchange {
		e.probing = false
	}
	if len(e.known)+len(e.missing) >= maxExchanges {
		clear(e.known)
		clear(e.missing)
	}
	var broker *amqp.Error
	if errors.As(err, &broker) && broker.Server && broker.Code == amqp.NotFound {
		e.missing[name] = missing{at: time.Now(), text: closeText(broker)}
	} else {
		e.known[name] = struct{}{}
	}
	ps := e.parked[name]
	delete(e.parked, name)
	return ps
}

// flush returns everything parked.
func (e *exchanges) flush() []*pending {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []*pending
	for _, ps := range e.parked {
		all = append(all, ps...)
	}
	clear(e.parked)
	e.asks = nil
	return all
}

// askExchanges is the topology goroutine: it alone uses the topology channel.
func (se *session) askExchanges() {
	var ch *amqp.Channel
	for {
		name, ok := se.exchanges.next()
		if !ok {
			select {
			case <-se.exchanges.wake:
				continue
			case <-se.over:
				return
			}
		}
		err := se.declarePassive(&ch, name)
		if se.isOver() {
			return // the gate is closed and what was parked is flushed
		}
		for _, p := range se.exchanges.answer(name, err) {
			se.s.requeue(p)
		}
	}
}

// declarePassive opens the channel when there is none: a 404 closes it.
func (se *session) declarePassive(ch **amqp.Channel, name string) error {
	defer se.guard("ask for exchange")()
	if *ch == nil || (*ch).IsClosed() {
		opened, err := se.conn.Channel()
		if err != nil {
			return err
		}
		*ch = opened
	}
	return (*ch).ExchangeDeclarePassive(name, amqp.ExchangeDirect, true, false, false, false, nil)
}
