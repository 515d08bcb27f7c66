package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/compensator"
)

// upkeepOptions are the settings of what the daemon does beside sending: how it returns
// after an outage, when it tells people, and what it deletes by age.
type upkeepOptions struct {
	slowStart                     time.Duration
	alertWindow, oldestReady      time.Duration
	eventRetention, deadRetention time.Duration
	environment, operatorConfig   string
}

func (o *upkeepOptions) bind(set *pflag.FlagSet) {
	set.DurationVar(&o.slowStart, "slow-start", compensator.DefaultSlowStart,
		"how long the rate climbs after an outage of the broker, from a tenth of --rate; 0 is at once")
	set.DurationVar(&o.alertWindow, "alert-window", compensator.DefaultAlertWindow,
		"least time between two alerts of one cause, 1s to 24h; the first goes out at once")
	set.StringVar(&o.environment, "environment", "", "`label` of alerts, such as production")
	set.StringVar(&o.operatorConfig, "operator-config", "",
		"settings `file` on the operators' machines; the commands in alerts name it (default this --config)")
	bindOldestReady(set, &o.oldestReady)
	set.DurationVar(&o.eventRetention, "event-retention", compensator.DefaultEventRetention,
		"age from which the messages' history is deleted, at least 1h; 0 is never")
	set.DurationVar(&o.deadRetention, "dead-retention", 0,
		"time after which DEAD messages are deleted, and lost for good, at least 1h; 0 is never")
}

// apply checks the settings by their flags' names and puts them into cfg. The library's
// word for none is -1 where its zero is the default.
func (o *upkeepOptions) apply(cfg *compensator.Config) error {
	cfg.Environment, cfg.OperatorConfig = o.environment, o.operatorConfig
	for _, f := range [...]struct {
		flag       string
		value      time.Duration
		least, top time.Duration
		zero       bool // allowed: none or never
		dst        *time.Duration
		none       time.Duration
	}{
		{"slow-start", o.slowStart, 1, 0, true, &cfg.SlowStart, -1},
		{
			"alert-window", o.alertWindow, compensator.MinAlertWindow, compensator.MaxAlertWindow, false,
			&cfg.AlertWindow, 0,
		},
		{"oldest-ready", o.oldestReady, time.Second, 0, true, &cfg.OldestReady, -1},
		{"event-retention", o.eventRetention, compensator.MinRetention, 0, true, &cfg.EventRetention, -1},
		{"dead-retention", o.deadRetention, compensator.MinRetention, 0, true, &cfg.DeadRetention, 0},
	} {
		*f.dst = f.value
		switch {
		case f.value == 0 && f.zero:
			*f.dst = f.none
		case f.value < f.least && f.least == 1:
			return usagef("--%s %v must not be negative", f.flag, f.value)
		case f.top > 0 && (f.value < f.least || f.value > f.top):
			return usagef("--%s %v must be %v to %v", f.flag, f.value, f.least, f.top)
		case f.value < f.least:
			return usagef("--%s %v must be at least %v, or 0 for never", f.flag, f.value, f.least)
		}
	}
	return nil
}
