package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/store/gormstore"
)

// publishOptions are the settings and arguments of publish.
type publishOptions struct {
	store   storeOptions
	amqp    amqpOptions
	policy  policyOptions
	log     logOptions
	message messageFlags

	service        string
	maxBody        int
	wait           time.Duration
	connectTimeout time.Duration
	drain          time.Duration
	onError        string
}

func (o *publishOptions) bind(fs *pflag.FlagSet) {
	o.message.bind(fs)
	fs.StringVar(&o.onError, "on-error", "stop", "after a malformed line or a message that is not stored: stop or skip")
	fs.DurationVar(&o.wait, "wait", 20*time.Second, "wait this long for each message's outcome")
	o.store.bind(fs, "default the SQLite file transmsg.db in the current folder")
	o.amqp.bind(fs)
	o.policy.bind(fs)
	o.log.bind(fs, "error") // each failed send is a line of the results already
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.StringVar(&o.service, "service", "cli",
		"service that owns the messages, 1 to 64 bytes, no white space at the ends")
	set.IntVar(&o.maxBody, "max-body", model.DefaultMaxBody,
		"largest body in bytes, at least 1 and at most what the database takes")
	set.DurationVar(&o.connectTimeout, "connect-timeout", 5*time.Second,
		"wait this long for the broker; then messages are stored and sent later")
	set.DurationVar(&o.drain, "drain-timeout", 20*time.Second,
		"after a signal, wait this long for outstanding confirms, above 0")
	fs.AddFlagSet(settings(set))
}

func (a *app) publishCommand() *cobra.Command {
	var o publishOptions
	cmd := &cobra.Command{
		Use:   "publish",
		Short: "Store messages and send them with confirms",
		Long: "Publishes one message from flags, or a stream of JSON lines. Each is stored first, sent, and deleted\n" +
			"when the broker has taken and routed it; what was not routed stays stored (exit code 3), for the\n" +
			"compensator to send again. Fields of a line: exchange, routing_key, body | body_base64 | json,\n" +
			"headers, id, key, not_before, allow_unroutable, and the properties content_type, content_encoding,\n" +
			"correlation_id, reply_to, expiration, type, app_id, priority, timestamp.",
		Example: "  transmsg publish --exchange orders --routing-key order.paid --body '{\"n\":4711}' --key 4711\n" +
			"  transmsg publish --routing-key invoices --body-file invoice.pdf --content-type application/pdf\n" +
			"  generate | transmsg publish --jsonl - --on-error skip --json",
		Args: noArgs,
	}
	o.bind(cmd.Flags())
	cmd.RunE = a.verb(func(ctx context.Context, _ []string) error { return a.publish(ctx, &o) })
	return cmd
}

func (a *app) publish(ctx context.Context, o *publishOptions) (err error) {
	log, err := o.log.logger(a)
	if err != nil {
		return err
	}
	pubCfg, senderCfg, err := o.configs(a, log)
	if err != nil {
		return err
	}
	src, err := o.message.source(a)
	if err != nil {
		return err
	}
	defer src.close()
	dsn, store, err := o.openStore(ctx, a, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := src.resolve(ctx, store); err != nil {
		return err
	}
	sender, err := confirms.Open(senderCfg)
	if err != nil {
		return usagef("%w", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = sender.Close(closing) // publisher.Close has drained or said what was left
	}()
	pubCfg.Store, pubCfg.Sender = store, sender
	pub, err := publisher.Open(pubCfg)
	if err != nil {
		return usagef("%w", err)
	}
	if err := waitReady(ctx, sender, senderCfg.Addrs, o.connectTimeout); err != nil {
		fmt.Fprintf(a.stderr, "broker %s not reached within %v; messages are stored and may be sent later: %s\n",
			strings.Join(senderCfg.Addrs, ", "), o.connectTimeout, a.secrets.errorText(err))
	}
	return a.publishAll(ctx, o, pub, src, store, dsn)
}

// configs checks the settings by their flags' names before anything is opened.
func (o *publishOptions) configs(a *app, log *slog.Logger) (publisher.Config, confirms.Config, error) {
	var none publisher.Config
	sender, err := o.amqp.config(a, "transmsg publish", log)
	if err != nil {
		return none, sender, err
	}
	policy, err := o.policy.policy()
	if err != nil {
		return none, sender, err
	}
	if err := model.CheckService(o.service); err != nil {
		return none, sender, usagef("--service %q %w; name the service that owns the messages", o.service, err)
	}
	switch {
	case o.onError != "stop" && o.onError != "skip":
		return none, sender, usagef("--on-error %q must be stop or skip", o.onError)
	case o.maxBody < 1:
		return none, sender, usagef("--max-body %d must be at least 1", o.maxBody)
	case o.wait < 0:
		return none, sender, usagef("--wait %v must not be negative", o.wait)
	case o.connectTimeout < 0:
		return none, sender, usagef("--connect-timeout %v must not be negative", o.connectTimeout)
	}
	return publisher.Config{Service: o.service, MaxBody: o.maxBody, Policy: policy, Logger: log},
		sender, positive("drain-timeout", o.drain)
}

// openStore opens the database, or the default file, which is this program's own and so is
// migrated.
func (o *publishOptions) openStore(ctx context.Context, a *app, log *slog.Logger) (string, *gormstore.Store, error) {
	fallback, err := defaultStore()
	if err != nil {
		return "", nil, err
	}
	dsn, err := o.store.resolve(a, fallback)
	if err != nil {
		return "", nil, err
	}
	own := dsn == fallback
	options, err := o.store.options(a, dsn, log)
	if err != nil {
		return "", nil, err
	}
	open := anystore.Open
	if own {
		open = anystore.Migrated
	}
	store, err := openDSN(ctx, open, dsn, options)
	if own && err == nil {
		fmt.Fprintf(a.stderr, "no --store given: using %s\n", dsn)
	}
	return dsn, store, err
}

// publishAll runs the pipeline, drains and sums up.
func (a *app) publishAll(
	ctx context.Context, o *publishOptions, pub *publisher.Publisher, src *source, store *gormstore.Store, dsn string,
) error {
	// hard ends what ctx must not cut short: rows being stored and confirms on their way.
	hard, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(o.drain, cut) })
	defer stop()

	rep := newReporter(a, src.lines != nil)
	p := pipeline{
		publish: func(ctx context.Context, m model.Message) (receipt, error) {
			r, err := pub.Publish(ctx, m)
			if err != nil { // a nil *Receipt in the interface would not be nil
				return nil, a.secrets.cleaned(err)
			}
			return r, nil
		},
		wait: o.wait, stopOnError: o.onError == "stop", report: rep.add,
	}
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	inputs := make(chan input, inFlightMessages)
	go src.read(reading, inputs)
	p.run(ctx, hard, inputs)
	stopReading()

	closing, cancel := context.WithTimeout(hard, o.drain)
	defer cancel()
	closeErr := pub.Close(closing)
	writeErr := rep.close()
	if closeErr != nil { // nothing is lost: the rows are READY
		fmt.Fprintf(a.stderr, "%s\n", a.secrets.errorText(closeErr))
	}
	if writeErr != nil {
		return writeErr
	}
	dead, err := deadOf(closing, store, rep.refused) // after Close, which writes the last outcomes
	if err != nil {
		fmt.Fprintf(a.stderr, "which of them are DEAD is not known: %s\n", a.secrets.errorText(err))
	}
	return a.publishSummary(rep, o, ctx.Err() != nil, dsn, dead)
}

// deadOf counts which of the messages are DEAD by now.
func deadOf(ctx context.Context, s *gormstore.Store, ids []string) (int, error) {
	dead := 0
	for part := range slices.Chunk(ids, 500) {
		p, err := s.Select(ctx, model.Selection{IDs: part, Filter: model.Filter{Status: model.Dead}})
		if err != nil {
			return dead, err
		}
		dead += p.Rows
	}
	return dead, nil
}

// publishSummary prints the last lines and chooses the exit code.
func (a *app) publishSummary(rep *reporter, o *publishOptions, interrupted bool, dsn string, dead int) error {
	failed, kept, waiting := rep.sums()
	waiting -= dead
	fmt.Fprintln(a.stderr, rep.tally())
	if waiting > 0 {
		fmt.Fprintf(a.stderr, "%d stored and not confirmed; a compensator on this store sends them again.\n"+
			"Next: transmsg messages list and transmsg compensator, with --store %s\n", waiting, shownStore(dsn))
	}
	if dead > 0 {
		fmt.Fprintf(a.stderr, "%d went DEAD at once, with no attempt left: nobody sends them again by themselves.\n"+
			"Next: mend the cause, then transmsg messages replay, with --store %s\n", dead, shownStore(dsn))
	}
	if interrupted {
		fmt.Fprintln(a.stderr, "interrupted: input after these messages was not read")
	}
	switch {
	case failed > 0 && o.onError == "stop" && o.message.jsonl != "":
		return fmt.Errorf("stopped at the first failure; %d messages are stored (with --on-error skip the rest "+
			"goes on; lines with an id can be published again)", rep.stored())
	case failed > 0 && o.message.jsonl != "":
		return fmt.Errorf("%d lines were skipped; %d messages are stored", failed, rep.stored())
	case failed > 0:
		return exitError{code: exitFailed}
	case kept > 0:
		return exitError{code: exitKept}
	}
	return nil
}

// shownStore is the DSN for a hint: only SQLite's has no secret.
func shownStore(dsn string) string {
	if len(dsn) > 7 && dsn[:7] == "sqlite:" {
		return dsn
	}
	return "DSN"
}
