package compensator

import (
	"time"

	"github.com/transmsg/transmsg/internal/settle"
	"github.com/transmsg/transmsg/model"
)

// settled is told of every outcome but acks once it has been written, from the
// batcher's goroutine. A row that it made DEAD is due for its alert, see owedAlerts.
func (c *Compensator) settled(r *settle.Result, d settle.Decision, met model.Settled) {
	if met == model.SettledFenced {
		c.cfg.Observer.LeaseConflict(r.Row.Service)
	}
	if r.Outcome.Kind == model.Deferred {
		return // not a failed send
	}
	c.logFailed(r, d, met)
	if met == model.SettledFenced {
		return // the row's new owner decides
	}
	c.cfg.Observer.Settled(r.Row, r.Outcome, d.Status)
}

// logFailed writes the one line of a failed send.
func (c *Compensator) logFailed(r *settle.Result, d settle.Decision, met model.Settled) {
	row, o := r.Row, r.Outcome
	c.log.Warn("send failed", "id", row.ID, "key", row.MessageKey, "service", row.Service,
		"exchange", row.Exchange, "routing_key", row.RoutingKey,
		"outcome", o.Kind.String(), "code", string(o.Code), "text", o.Text,
		"attempt", row.Attempts+d.AttemptsDelta, "status", string(d.Status), "retry_in", d.Delay,
		"lease_lost", met == model.SettledFenced)
}

// breakerOpened tells of an exchange that the broker refuses.
func (c *Compensator) breakerOpened(t target, o model.Outcome) {
	c.log.Warn("exchange is broken: its rows wait", "exchange", t.exchange, "topic", t.key, "text", o.Text)
	c.cfg.Observer.Breaker(t.exchange, t.key, true)
	now := time.Now()
	c.notice(Alert{
		Kind: model.AlertExchange, Exchange: t.exchange, RoutingKey: t.key, Code: o.Code, Text: o.Text,
		Count: 1, First: now, Last: now,
	})
}

// breakerClosed tells that a probe has passed, or that no row has come for one.
func (c *Compensator) breakerClosed(t target, passed bool) {
	if passed {
		c.log.Info("exchange takes messages again", "exchange", t.exchange, "topic", t.key)
	} else {
		c.log.Info("exchange forgotten: no row for it comes any more", "exchange", t.exchange, "topic", t.key)
	}
	c.cfg.Observer.Breaker(t.exchange, t.key, false)
}
