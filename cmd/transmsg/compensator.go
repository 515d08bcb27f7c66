package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/transmsg/transmsg/alert"
	"github.com/transmsg/transmsg/collector"
	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/metrics"
	"github.com/transmsg/transmsg/model"
)

const compensatorName = "compensator"

const defaultHTTP = "127.0.0.1:9467"

// compensatorOptions are the settings of the daemon.
type compensatorOptions struct {
	store  storeOptions
	amqp   amqpOptions
	policy policyOptions
	log    logOptions
	redis  redisOptions

	services   []string
	interval   time.Duration
	cron       string
	batch      int
	batchBytes int64
	lease      time.Duration
	rate       float64
	instance   string
	drain      time.Duration
	http       string
	upkeep     upkeepOptions
	alerts     alertOptions
	collect    collectOptions
	fs         *pflag.FlagSet
}

func (o *compensatorOptions) bind(fs *pflag.FlagSet) {
	o.fs = fs
	o.store.bind(fs, "required")
	o.amqp.bind(fs)
	o.policy.bind(fs)
	o.redis.bind(fs)
	o.alerts.bind(fs)
	o.log.bind(fs, "info")
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.StringSliceVar(&o.services, "services", nil, "send the messages of these services only (default all)")
	set.DurationVar(&o.interval, "interval", compensator.DefaultInterval, "time from run to run, at least 10ms")
	set.StringVar(&o.cron, "cron", "", "cron `expression` in UTC of 5 fields, or 6 with seconds, instead of --interval")
	set.IntVar(&o.batch, "batch", compensator.DefaultBatchRows, "messages per claim, 1 to 5000")
	set.Int64Var(&o.batchBytes, "batch-bytes", compensator.DefaultBatchBytes, "bytes per claim, at least 1")
	set.DurationVar(&o.lease, "lease", compensator.DefaultLease,
		"how long claimed messages are this process's; above batch/rate + --confirm-timeout + 3s")
	set.Float64Var(&o.rate, "rate", 0, "limit of messages sent per second; 0 is none")
	set.StringVar(&o.instance, "instance", "",
		"name of this instance in table, log and alerts, at most 64 bytes (default host-pid-random)")
	set.DurationVar(&o.drain, "drain-timeout", compensator.DefaultDrainTimeout,
		"after a signal, wait this long for outstanding confirms, above 0")
	set.StringVar(&o.http, "http", defaultHTTP, "`host:port` of /healthz, /readyz and /metrics; empty is none")
	o.upkeep.bind(set)
	o.collect.bind(set)
	fs.AddFlagSet(settings(set))
}

func (a *app) compensatorCommand() *cobra.Command {
	var o compensatorOptions
	cmd := &cobra.Command{
		Use:   compensatorName,
		Short: "Send again what is due, until a signal; run any number of replicas",
		Long: "Runs until SIGINT or SIGTERM: claims stored messages that are due, sends them with confirms, deletes\n" +
			"what the broker has taken, and marks DEAD, with an alert in the log, what runs out of attempts.\n" +
			"A broker or Redis that is down is waited for and costs no attempts. A second signal ends at once.",
		Example: "  transmsg compensator --store mysql://user:password@db/shop --amqp amqp://user:password@broker/\n" +
			"  TRANSMSG_STORE_FILE=/run/secrets/dsn TRANSMSG_AMQP_FILE=/run/secrets/amqp transmsg compensator",
		Args: noArgs,
	}
	o.bind(cmd.Flags())
	cmd.RunE = a.verb(func(ctx context.Context, _ []string) error { return a.compensate(ctx, &o) })
	return cmd
}

// compensate opens everything, runs until ctx ends and closes in reverse.
func (a *app) compensate(ctx context.Context, o *compensatorOptions) (err error) {
	log, err := o.log.logger(a)
	if err != nil {
		return err
	}
	a.tellOverridden(ctx, log)
	cfg, senderCfg, err := o.configs(a, log)
	if err != nil {
		return err
	}
	if cfg.Alerters, err = o.alerts.alerters(a); err != nil {
		return err
	}
	cfg.Alerter = alert.LogSink{Logger: log}
	letters, collecting, err := o.collect.config(&senderCfg, log)
	if err != nil {
		return err
	}
	store, err := a.openStore(ctx, &o.store, log)
	if err != nil && ctx.Err() != nil { // asked to stop while it waited: as asked, and nothing is open yet
		log.InfoContext(ctx, "stopped before the database answered", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	figures, err := metrics.New(metrics.Config{Store: store, Logger: log})
	if err != nil {
		return err
	}
	sender, err := figures.OpenSender(senderCfg)
	if err != nil {
		return usagef("%w", err)
	}
	defer func() { err = errors.Join(err, closeDrained(ctx, sender)) }()
	locker, closeLocker, err := o.redis.locker(a, log)
	if err != nil {
		return err
	}
	defer closeLocker()
	cfg.Store, cfg.Sender, cfg.Locker = store, sender, locker
	cfg.Observers = []compensator.Observer{figures.CompensatorObserver()}
	o.collect.apply(&cfg, store)
	comp, err := compensator.New(cfg)
	if err != nil {
		return usagef("%w", err)
	}
	var collects *collector.Collector
	if collecting {
		letters.Store, letters.Sender, letters.Alert = store, sender, comp.Raise
		if collects, err = figures.NewCollector(letters); err != nil {
			return usagef("%w", err)
		}
	}
	web, err := newHealthServer(ctx, o.http, probes{store, sender, collects}, figures.Handler(), a.secrets.errorText)
	if err != nil {
		return err
	}
	o.announce(log, store.Label(), &senderCfg, &cfg, web.addr())
	return serve(ctx, comp, collects, web, log)
}

// closeDrained closes a sender that Run has drained: all that is left is a handshake.
func closeDrained(ctx context.Context, s *confirms.Sender) error {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return s.Close(closing)
}

// tellOverridden names the settings of the file that the environment overrides.
func (a *app) tellOverridden(ctx context.Context, log *slog.Logger) {
	for _, name := range a.overridden {
		log.WarnContext(ctx, "an environment variable overrides the settings file", "variable", envName(name),
			"key", name, "file", a.configFile)
	}
}

// configs checks the settings by their flags' names before anything is opened.
func (o *compensatorOptions) configs(a *app, log *slog.Logger) (compensator.Config, confirms.Config, error) {
	policy, err := o.policy.policy()
	if err != nil {
		return compensator.Config{}, confirms.Config{}, err
	}
	sender, err := o.amqp.config(a, "transmsg compensator", log)
	sender.TrySuspects = true
	if err != nil {
		return compensator.Config{}, confirms.Config{}, err
	}
	cfg := compensator.Config{
		Policy: policy, Services: o.services, Interval: o.interval, Cron: o.cron, BatchRows: o.batch,
		BatchBytes: o.batchBytes, Lease: o.lease, Rate: o.rate, Instance: o.instance,
		DrainTimeout: o.drain, Logger: log,
	}
	if o.cron != "" {
		if o.fs.Changed("interval") {
			return cfg, sender, usagef("--interval and --cron: give one of them")
		}
		cfg.Interval = 0
	}
	// A zero would silently become the default.
	switch {
	case o.cron == "" && o.interval < compensator.MinInterval:
		err = usagef("--interval %v must be at least %v", o.interval, compensator.MinInterval)
	case o.batch < 1:
		err = usagef("--batch %d must be 1 to %d", o.batch, compensator.MaxBatchRows)
	case o.batchBytes < 1:
		err = usagef("--batch-bytes %d must be at least 1", o.batchBytes)
	default:
		err = errors.Join(positive("lease", o.lease), positive("drain-timeout", o.drain))
	}
	err = cmp.Or(err, o.upkeep.apply(&cfg))
	if cfg.OperatorConfig == "" && a.configFile != "" {
		if path, absErr := filepath.Abs(a.configFile); absErr == nil {
			cfg.OperatorConfig = path
		}
	}
	return cfg, sender, err
}

// serve runs compensator, collector, which may be nil, and HTTP until ctx ends or HTTP cannot be served.
func serve(
	ctx context.Context, comp *compensator.Compensator, collects *collector.Collector, web *healthServer,
	log *slog.Logger,
) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return comp.Run(ctx) })
	if collects != nil {
		group.Go(func() error { return collects.Run(ctx) })
	}
	group.Go(func() error { return web.run(ctx) })
	switch err := group.Wait(); {
	case errors.Is(err, model.ErrNotDrained):
		// Nothing is lost: the rows are due again when their leases end.
		log.Warn("compensator stopped before everything was drained", "error", err)
		return nil
	case err != nil:
		return err
	}
	log.Info("compensator stopped, everything drained")
	return nil
}

// announce says what this process is connected to and how it tries.
func (o *compensatorOptions) announce(
	log *slog.Logger, store string, sender *confirms.Config, cfg *compensator.Config, http string,
) {
	services, lock := strings.Join(cfg.Services, ","), "none: claims alone keep replicas apart"
	if cfg.Locker != nil {
		lock = fmt.Sprintf("redis, %d slot(s)", o.redis.slots)
	}
	policy := cfg.Policy.WithDefaults()
	var exhausted, dead time.Duration
	for s := range policy.Timetable() {
		if !s.Exhausted || s.Attempt == policy.MaxAttempts {
			exhausted = s.At
		}
		if dead = s.At; s.Attempt > policyMost {
			break
		}
	}
	log.Info("compensator started", "store", store, "brokers", strings.Join(sender.Addrs, ","),
		"vhost", cmp.Or(sender.VHost, "/"), "services", cmp.Or(services, "all"),
		"attempts", policy.MaxAttempts, "attempts_last", exhausted.Round(time.Second),
		"dead_after", dead.Round(time.Second), "lock", lock, "http", http)
	for _, addr := range sender.Addrs {
		if hint := confirms.PortHint(addr); hint != "" {
			log.Warn("the broker's address looks wrong", "addr", addr, "text", hint)
		}
	}
	if o.amqp.given("amqp", "amqp-file", "amqp-addr") == "" {
		log.Warn("no broker was given: guest at 127.0.0.1:5672, virtual host /, is used; give --amqp or --amqp-addr")
	}
}
