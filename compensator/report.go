package compensator

import (
	"github.com/transmsg/transmsg/internal/settle"
	"github.com/transmsg/transmsg/model"
)

// settled is told of every outcome but acks once it has been written, from the
// batcher's goroutine. It does not wait for an Alerter.
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
	waits := r.Outcome.Code == model.CodeNewerCodec && r.Row.LastCode != model.CodeNewerCodec
	if d.Status == model.Dead || waits {
		c.alerts.add(c.alert(r, d))
	}
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

func (c *Compensator) alert(r *settle.Result, d settle.Decision) Alert {
	row := r.Row
	return Alert{
		Status: d.Status, Service: row.Service, Exchange: row.Exchange, RoutingKey: row.RoutingKey,
		Code: r.Outcome.Code, Text: r.Outcome.Text, ID: row.ID, Key: row.MessageKey,
		Attempts: row.Attempts + d.AttemptsDelta, Instance: c.cfg.Owner,
		Command: "transmsg messages show " + row.ID,
	}
}
