package compensator

import (
	"context"
	"log/slog"

	"github.com/transmsg/transmsg/model"
)

// Alert is one alert; package model defines it.
type Alert = model.Alert

// Alerter delivers alerts to people. Package alert has implementations. It is called off
// the way of the messages, one call at a time, with a context of 5 s, and must return when
// that ends; nil means that the alert was accepted and will not be raised again. An error
// or a panic makes it be tried again, after a wait that grows to a minute, and later than
// that by another process if this one ends: an alert may thus be delivered twice. An error
// that has a method RetryAfter() time.Duration, also a wrapped one, says that there are too
// many alerts: none is tried for so long, at most 10 min.
type Alerter interface {
	Alert(context.Context, Alert) error
}

// logAlerter is the Alerter where none is configured.
type logAlerter struct{ log *slog.Logger }

// Alert implements [Alerter] and never fails.
func (l logAlerter) Alert(_ context.Context, a Alert) error {
	l.log.Error("needs attention", "alert", &a)
	return nil
}
