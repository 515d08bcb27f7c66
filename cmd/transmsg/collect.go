package main

import (
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/collector"
	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/confirms"
)

// collectOptions are the settings of collecting dead letters in the daemon.
type collectOptions struct {
	queues                 []string
	service, uncollectable string
	retention              time.Duration
	fs                     *pflag.FlagSet
}

func (o *collectOptions) bind(set *pflag.FlagSet) {
	o.fs = set
	set.StringSliceVar(&o.queues, "collect", nil,
		"move the dead letters of this `queue` into the store; repeat for more (default none)")
	set.StringVar(&o.service, "collect-service", collector.DefaultService,
		"service whose messages the replays of these letters are, with --collect")
	set.StringVar(&o.uncollectable, "uncollectable", collector.DefaultUncollectable,
		"`queue` for dead letters that cannot be stored, with --collect")
	set.DurationVar(&o.retention, "letter-retention", 0,
		"time since their last change after which dead letters are deleted, and lost for good, at least 1h, with "+
			"--collect; 0 is none")
}

// apply tells the compensator of the store that keeps dead letters.
func (o *collectOptions) apply(cfg *compensator.Config, store compensator.Letters) {
	if len(o.queues) > 0 {
		cfg.Letters, cfg.LetterRetention = store, orNone(o.retention)
	}
}

// config is that of a collector, but for store, sender and alerts. ok says that one is wanted.
func (o *collectOptions) config(sender *confirms.Config, log *slog.Logger) (cfg collector.Config, ok bool, err error) {
	if len(o.queues) == 0 {
		for _, name := range []string{"collect-service", "uncollectable", "letter-retention"} {
			if o.fs.Changed(name) {
				return cfg, false, usagef("--%s: give --collect too, the dead-letter queue", name)
			}
		}
		return cfg, false, nil
	}
	if o.retention != 0 && o.retention < compensator.MinRetention {
		return cfg, false, usagef("--letter-retention %v must be at least %v, or 0 for none", o.retention,
			compensator.MinRetention)
	}
	return collector.Config{
		Addrs: sender.Addrs, VHost: sender.VHost, Credentials: sender.Credentials, TLS: sender.TLS,
		DialTimeout: sender.DialTimeout, Name: "transmsg collector", Queues: o.queues, Service: o.service,
		Uncollectable: o.uncollectable, Logger: log,
	}, true, nil
}
