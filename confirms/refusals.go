package confirms

import (
	"sync"
	"time"

	"github.com/transmsg/transmsg/internal/breaker"
	"github.com/transmsg/transmsg/model"
)

// forgetTick is how often targets for which no message comes are looked for.
const forgetTick = 10 * time.Second

// Refusal is news of an exchange that the broker refuses (403, or 404), or takes again.
type Refusal struct {
	Exchange string
	// Topic is the routing key where the broker refuses one topic; empty for the exchange.
	Topic string
	// Open: it is refused. Its messages are deferred, but for one probe at a time.
	Open bool
	// Passed says of an end that the broker took a message. Otherwise none has come for
	// Config.ForgetRefusals.
	Passed bool
	// Cause is the broker's refusal, while Open.
	Cause model.Outcome
}

// Waits reports whether a message given to Send now would be deferred because the broker
// refuses its exchange or its topic, or does not confirm its route, and with which outcome.
// It is for whoever can do better than to send it, and takes no lock while nothing is refused.
func (s *Sender) Waits(exchange, routingKey string) (why model.Outcome, waits bool) {
	return s.broken.Waits(exchange, routingKey)
}

// OnRefusal calls f for each exchange that is refused, for those that are refused now first,
// until stop is called. f must not block and may be called from several goroutines.
func (s *Sender) OnRefusal(f func(Refusal)) (stop func()) {
	stop = s.refusals.add(f)
	for _, c := range s.broken.Open() {
		if r, ok := refusal(c); ok {
			f(r)
		}
	}
	return stop
}

// refusal is the public form of a change; a route that is not confirmed has none.
func refusal(c breaker.Change) (Refusal, bool) {
	return Refusal{
		Exchange: c.Target.Exchange, Topic: c.Target.Key, Open: c.Open, Passed: c.Passed, Cause: c.Cause,
	}, c.Target.Kind != breaker.Route
}

// admit asks the breaker once for each send; a probe of what the broker refused goes alone.
func (s *Sender) admit(p *pending) (why model.Outcome, waits bool) {
	if p.probe != nil {
		return model.Outcome{}, false
	}
	p.probe, why, waits = s.broken.Admit(p.Message.Exchange, p.Message.RoutingKey)
	if p.probe != nil && p.probe.Alone() {
		p.role = s.quarantine
	}
	return why, waits
}

// brokenChanged logs and tells of a target.
func (s *Sender) brokenChanged(c breaker.Change) {
	t := c.Target
	switch {
	case t.Kind == breaker.Route && c.Open:
		s.log.Warn("route without confirms: its messages wait", "exchange", t.Exchange, "routing_key", t.Key,
			"text", c.Cause.Text)
	case t.Kind == breaker.Route:
		s.log.Info("route answers again, or is forgotten", "exchange", t.Exchange, "routing_key", t.Key,
			"answered", c.Passed)
	case c.Open:
		s.log.Warn("exchange is refused: its messages wait", "exchange", t.Exchange, "topic", t.Key,
			"text", c.Cause.Text)
	default:
		s.log.Info("exchange is no longer refused, or is forgotten", "exchange", t.Exchange, "topic", t.Key,
			"taken", c.Passed)
	}
	if r, ok := refusal(c); ok {
		s.refusals.tell(r)
	}
}

// forgetBroken forgets what no message comes for, until the sender has ended.
func (s *Sender) forgetBroken() {
	ticker := time.NewTicker(forgetTick)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.broken.Forget()
		case <-s.ended:
			return
		}
	}
}

// listeners are functions that are told of refusals.
type listeners struct {
	mu   sync.Mutex
	next int
	all  map[int]func(Refusal)
}

func (l *listeners) add(f func(Refusal)) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = make(map[int]func(Refusal))
	}
	id := l.next
	l.next++
	l.all[id] = f
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.all, id)
	}
}

func (l *listeners) tell(r Refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.all {
		f(r)
	}
}
