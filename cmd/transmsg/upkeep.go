package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/model"
)

// upkeepOptions are the settings of what the daemon does beside sending: how it returns
// after an outage, when it tells people, and what it deletes by age.
type upkeepOptions struct {
	slowStart                      time.Duration
	alertWindow, oldestReady       time.Duration
	eventRetention, deadRetention  time.Duration
	inboxRetention, queueRetention time.Duration
	set                            *pflag.FlagSet
	environment, operatorConfig    string
}

func (o *upkeepOptions) bind(set *pflag.FlagSet) {
	set.DurationVar(&o.slowStart, "slow-start", compensator.DefaultSlowStart,
		"how long the rate climbs after an outage of the broker, from a tenth of --rate; 0 is none")
	set.DurationVar(&o.alertWindow, "alert-window", compensator.DefaultAlertWindow,
		"least time between two alerts of one cause, 1s to 24h; the first goes out at once")
	set.StringVar(&o.environment, "environment", "", "`label` of alerts, such as production")
	set.StringVar(&o.operatorConfig, "operator-config", "",
		"settings `file` on the operators' machines; the commands in alerts name it (default this --config)")
	bindOldestReady(set, &o.oldestReady)
	set.DurationVar(&o.eventRetention, "event-retention", compensator.DefaultEventRetention,
		"age from which the messages' history is deleted, at least 1h; 0 is none")
	set.DurationVar(&o.deadRetention, "dead-retention", 0,
		"time after which DEAD messages are deleted, and lost for good, at least 1h; 0 is none")
	set.DurationVar(&o.inboxRetention, "inbox-retention", compensator.DefaultInboxRetention,
		"age from which consumers' inbox records are deleted, at least 1h and at least --queue-retention and "+
			"--dead-retention; where it is not given it is raised to them; 0 is none")
	set.DurationVar(&o.queueRetention, "queue-retention", compensator.DefaultQueueRetention,
		"longest time for which the broker's queues, dead-letter queues too, keep a message that can still be "+
			"delivered; --inbox-retention is checked against it; 0 is none")
	o.set = set
}

// apply checks the settings by their flags' names and puts them into cfg.
func (o *upkeepOptions) apply(cfg *compensator.Config) error {
	if !o.set.Changed("inbox-retention") {
		o.inboxRetention = max(o.inboxRetention, o.queueRetention, o.deadRetention)
	}
	cfg.Environment, cfg.OperatorConfig = o.environment, o.operatorConfig
	for _, f := range [...]struct {
		flag       string
		value      time.Duration
		least, top time.Duration
		none       bool // is allowed
		dst        *time.Duration
	}{
		{"slow-start", o.slowStart, 1, 0, true, &cfg.SlowStart},
		{
			"alert-window", o.alertWindow, compensator.MinAlertWindow, compensator.MaxAlertWindow, false,
			&cfg.AlertWindow,
		},
		{"oldest-ready", o.oldestReady, time.Second, 0, true, &cfg.OldestReady},
		{"event-retention", o.eventRetention, compensator.MinRetention, 0, true, &cfg.EventRetention},
		{"dead-retention", o.deadRetention, compensator.MinRetention, 0, true, &cfg.DeadRetention},
		{"queue-retention", o.queueRetention, 1, 0, true, &cfg.QueueRetention},
		{"inbox-retention", o.inboxRetention, compensator.MinRetention, 0, true, &cfg.InboxRetention},
	} {
		*f.dst = f.value
		switch {
		case f.value == 0 && f.none:
			*f.dst = model.None
		case f.value < f.least && f.least == 1:
			return usagef("--%s %v must not be negative", f.flag, f.value)
		case f.top > 0 && (f.value < f.least || f.value > f.top):
			return usagef("--%s %v must be %v to %v", f.flag, f.value, f.least, f.top)
		case f.value < f.least:
			return usagef("--%s %v must be at least %v, or 0 for none", f.flag, f.value, f.least)
		}
	}
	return o.checkInbox()
}

// checkInbox refuses a retention after which messages can still come back.
func (o *upkeepOptions) checkInbox() error {
	for flag, other := range map[string]time.Duration{
		"queue-retention": o.queueRetention, "dead-retention": o.deadRetention,
	} {
		if o.inboxRetention != 0 && o.inboxRetention < other {
			return usagef("--inbox-retention %v must be at least --%s %v: a message that comes back after its "+
				"record was deleted has a second effect", o.inboxRetention, flag, other)
		}
	}
	return nil
}
