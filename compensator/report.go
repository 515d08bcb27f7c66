package compensator

import (
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/settle"
	"github.com/transmsg/transmsg/model"
)

// settled is told of every outcome but acks once it has been written, from the
// batcher's goroutine. A row that it made DEAD is due for its alert, see rowAlerts.
func (c *Compensator) settled(r *settle.Result, d settle.Decision, met model.Settled) {
	if met == model.SettledFenced {
		c.cfg.observer.LeaseConflict(r.Row.Service)
	}
	if r.Outcome.Kind == model.Deferred {
		return // not a failed send
	}
	if met == model.SettledFenced {
		return // the instance that has it now decides
	}
	c.cfg.observer.Settled(r.Row, r.Outcome, d.Status)
}

// refusal tells of an exchange that the broker refuses, or takes again.
func (c *Compensator) refusal(r confirms.Refusal) {
	c.cfg.observer.Breaker(r.Exchange, r.Topic, r.Open)
	if !r.Open {
		return
	}
	now := time.Now()
	c.raise(Alert{
		Kind: model.AlertExchange, Exchange: r.Exchange, RoutingKey: r.Topic, Code: r.Cause.Code, Text: r.Cause.Text,
		Count: 1, First: now, Last: now,
	})
}
