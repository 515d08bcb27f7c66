package transmsgtest

import (
	"sync"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

// Broker is the scripted broker of an [Env]. Without a script it acks everything. It is
// safe for concurrent use; a script holds for messages sent after it was set.
type Broker struct {
	mu      sync.Mutex
	down    bool
	answers []answer // the last that matches wins
	sent    []model.Message
}

type answer struct {
	exchange, routingKey string
	outcome              model.Outcome
}

var _ publisher.Sender = (*Broker)(nil)

// Return makes messages to this exchange and routing key come back: no queue is bound.
func (b *Broker) Return(exchange, routingKey string) {
	b.Answer(exchange, routingKey, model.Outcome{Kind: model.Returned, Code: model.CodeNoRoute, Text: "NO_ROUTE"})
}

// Nack makes the broker refuse them, as a full queue with reject-publish does.
func (b *Broker) Nack(exchange, routingKey string) {
	b.Answer(exchange, routingKey, model.Outcome{Kind: model.Nacked, Code: model.CodeNack})
}

// Answer gives messages to this exchange and routing key any outcome.
func (b *Broker) Answer(exchange, routingKey string, o model.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers = append(b.answers, answer{exchange, routingKey, o})
}

// Down makes the broker unreachable: messages are stored and their receipts are
// deferred, until Up.
func (b *Broker) Down() { b.set(true) }

// Up ends Down.
func (b *Broker) Up() { b.set(false) }

func (b *Broker) set(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down = down
}

// Sent returns the messages sent so far, in order, whatever their outcome.
func (b *Broker) Sent() []model.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]model.Message(nil), b.sent...)
}

// TryReserve implements [publisher.Sender].
func (b *Broker) TryReserve(int, int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.down
}

// Release implements [publisher.Sender].
func (b *Broker) Release(int, int64) {}

// Waits implements [publisher.Sender]: this broker is asked each time.
func (b *Broker) Waits(string, string) (model.Outcome, bool) { return model.Outcome{}, false }

// Held calls f for nothing: this broker has no alarms.
func (b *Broker) Held(func(confirms.Handler)) {}

// Send implements [publisher.Sender].
func (b *Broker) Send(s confirms.Send) {
	b.mu.Lock()
	o := model.Outcome{Kind: model.Acked}
	if b.down {
		o = model.Outcome{Kind: model.Deferred, Code: model.CodeNotSent}
	} else {
		b.sent = append(b.sent, *s.Message)
		for _, a := range b.answers {
			if a.exchange == s.Message.Exchange && a.routingKey == s.Message.RoutingKey {
				o = a.outcome
			}
		}
	}
	b.mu.Unlock()
	s.Handler.Done(o)
}

// FrameMax implements [publisher.Sender].
func (b *Broker) FrameMax() int { return model.DefaultFrameMax }

// ConfirmTimeout implements [publisher.Sender].
func (b *Broker) ConfirmTimeout() time.Duration { return confirms.DefaultConfirmTimeout }
