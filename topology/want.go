package topology

import (
	"regexp"
	"slices"
	"strings"
)

// wanted is the objects that a plan consists of. It is the one place for names, arguments, policies and rights: what
// is declared and what is checked are made of it.
type wanted struct {
	exchanges []Exchange
	queues    []wantedQueue
	bindings  []Binding
	rights    []wantedRights
}

// purpose is what a queue is for.
type purpose string

const (
	forWork    purpose = "work"
	forStep    purpose = "step"
	forLetters purpose = "dead letters"
)

// wantedQueue is a queue with the settings that a policy gives it.
type wantedQueue struct {
	Queue
	purpose purpose
	policy  map[string]any
}

// wantedRights are what a role's login may write to and read from, by name.
type wantedRights struct {
	role  Role
	login Login
	write []string
	read  []string
}

// The name by which the broker checks writing to the default exchange.
const defaultExchangeRight = "amq.default"

func (p *Plan) wanted() wanted {
	var w wanted
	w.addExchange(p.DeadLetters.Exchange, typeFanout, nil)
	for _, name := range p.exchanges() {
		i := slices.IndexFunc(p.Routes, func(r Route) bool { return r.Exchange == name })
		w.addExchange(name, p.Routes[i].Type, nil)
	}
	w.addQueue(p.DeadLetters.Queue, forLetters, nil, map[string]any{setDeliveries: int64(DeliveryLimit)})
	for _, q := range p.Queues {
		w.addWork(q, p.workPolicy())
	}
	w.bindings = append(w.bindings, Binding{Source: p.DeadLetters.Exchange, Destination: p.DeadLetters.Queue})
	for _, r := range p.Routes {
		partitioned := slices.ContainsFunc(p.Queues,
			func(q WorkQueue) bool { return q.Name == r.Queue && q.Partitions > 0 })
		w.bindings = append(w.bindings,
			Binding{Source: r.Exchange, Destination: r.Queue, ToExchange: partitioned, Key: *r.Key})
	}
	for _, role := range roles {
		if login, ok := p.Users[role]; ok {
			w.rights = append(w.rights, p.rightsOf(role, login))
		}
	}
	return w
}

// workPolicy is what work queues get by policy rather than by arguments: those can never be changed.
func (p *Plan) workPolicy() map[string]any {
	return map[string]any{
		setDeliveries:   int64(DeliveryLimit),
		setDeadExchange: p.DeadLetters.Exchange,
		// A dead letter leaves its queue when the dead-letter queue has confirmed it. This needs reject-publish.
		setDeadStrategy: atLeastOnce,
		setOverflow:     rejectPublish,
	}
}

func (p *Plan) rightsOf(role Role, login Login) wantedRights {
	r := wantedRights{role: role, login: login}
	switch role {
	case Publisher:
		r.write = p.exchanges()
	case Compensator:
		r.write = append(p.exchanges(), defaultExchangeRight)
	case Consumer:
		r.write = []string{p.DeadLetters.Exchange, defaultExchangeRight}
		r.read = p.workQueues()
	case Collector:
		r.read = []string{p.DeadLetters.Queue}
	}
	return r
}

func (w *wanted) addExchange(name, kind string, arguments map[string]any) {
	w.exchanges = append(w.exchanges, Exchange{Name: name, Type: kind, Durable: true, Arguments: arguments})
}

func (w *wanted) addQueue(name string, of purpose, arguments, policy map[string]any) {
	all := map[string]any{"x-queue-type": typeQuorum}
	for k, v := range arguments {
		all[k] = v
	}
	w.queues = append(w.queues,
		wantedQueue{Queue: Queue{Name: name, Durable: true, Arguments: all}, purpose: of, policy: policy})
}

// addWork adds a work queue with its ladder, or its partitions with the exchange before them.
func (w *wanted) addWork(q WorkQueue, policy map[string]any) {
	if q.Partitions > 0 {
		var arguments map[string]any
		if q.HashHeader != "" {
			arguments = map[string]any{"hash-header": q.HashHeader}
		}
		w.addExchange(q.Name, typeConsistentHash, arguments)
		for _, name := range q.queues() {
			w.addQueue(name, forWork, map[string]any{"x-single-active-consumer": true}, policy)
			w.bindings = append(w.bindings, Binding{Source: q.Name, Destination: name, Key: "1"}) // its weight
		}
		return
	}
	w.addQueue(q.Name, forWork, nil, policy)
	ladder := q.ladder()
	for step := range ladder.Steps {
		w.addQueue(ladder.StepQueue(step), forStep, ladder.StepArguments(step), nil)
	}
}

// title is how findings name a queue.
func (q wantedQueue) title() string {
	if q.purpose == forLetters {
		return "dead-letter queue " + q.Name
	}
	return "queue " + q.Name
}

// exactly is the regular expression that matches the names and nothing else.
func exactly(list []string) string {
	if len(list) == 0 {
		return "^$"
	}
	quoted := make([]string, len(list))
	for i, name := range list {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return "^(" + strings.Join(quoted, "|") + ")$"
}
