package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/model"
)

// What the demo does beside --messages, and its bounds.
const (
	demoUnbound     = 100 // messages to a key that is bound later
	demoDead        = 5   // messages that run out of attempts
	minDemoMessages = 100
	maxDemoMessages = 100_000
	demoPatience    = 30 * time.Second // for one state to be reached
	demoConnect     = 5 * time.Second  // for the broker at the start
	demoService     = "demo"
)

// demoPolicy tries again quickly, so that the whole life of a message fits into a demo.
var demoPolicy = model.Policy{
	BaseDelay: 300 * time.Millisecond, MaxDelay: 5 * time.Second, MaxAttempts: 4, MinDeadAge: -1,
}

type demoOptions struct {
	amqp     amqpOptions
	log      logOptions
	seed     uint64
	messages int
	keep     bool
}

func (a *app) demoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch the whole job on RabbitMQ and an embedded SQLite store",
		Long: "Publishes, in and out of transactions, to an exchange of its own; sends messages to a key that\n" +
			"nobody bound; cuts the connection in the middle of a burst; lets some run out of attempts; repairs\n" +
			"what can be repaired with an embedded compensator; and counts what arrived on a real consumer. It\n" +
			"ends with a table and `lost 0`; any other end is exit code 1. Exchange, queue and the SQLite file,\n" +
			"in a folder of their own that is printed, are removed at the end.",
		Args: noArgs,
	}
	fs := cmd.Flags()
	fs.Uint64Var(&o.seed, "seed", 1, "seed of what is random: bodies and which transactions roll back")
	fs.IntVar(&o.messages, "messages", 2000, fmt.Sprintf("messages in and out of transactions, %d to %d",
		minDemoMessages, maxDemoMessages))
	fs.BoolVar(&o.keep, "keep", false, "keep the SQLite file, exchange and queue")
	o.amqp.bind(fs)
	o.log.bind(fs, "error")
	cmd.RunE = a.verb(func(ctx context.Context, _ []string) error { return a.demo(ctx, &o) })
	return cmd
}

func (a *app) demo(ctx context.Context, o *demoOptions) (err error) {
	if o.messages < minDemoMessages || o.messages > maxDemoMessages {
		return usagef("--messages %d must be %d to %d", o.messages, minDemoMessages, maxDemoMessages)
	}
	log, err := o.log.logger(a)
	if err != nil {
		return err
	}
	cfg, err := o.amqp.config(a, "transmsg demo", log)
	if err != nil {
		return err
	}
	d := &demo{
		app: a, out: a.stdout, log: log, options: o, begin: time.Now(),
		random: rand.New(rand.NewPCG(o.seed, 0)), published: map[string]bool{}, rolledBack: map[string]bool{},
	}
	if a.jsonOut {
		d.out = a.stderr // stdout is for the one JSON object
	}
	defer func() { err = errors.Join(err, d.close(ctx)) }()
	if err := d.open(ctx, cfg); err != nil {
		return err
	}
	for _, act := range []func(context.Context) error{d.publishing, d.unroutable, d.cutting, d.dying} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return d.finish(ctx)
}

// say prints a line of the story. The alerter tells it too, from the compensator's
// goroutine.
func (d *demo) say(format string, args ...any) {
	d.sayMu.Lock()
	defer d.sayMu.Unlock()
	fmt.Fprintf(d.out, format+"\n", args...)
}

// until waits for a state that is named in the error if it does not come.
func (d *demo) until(ctx context.Context, what string, reached func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := reached()
		if err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited for %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
}

// emptied waits until no READY row is left and every published message has arrived.
func (d *demo) emptied(ctx context.Context) error {
	return d.until(ctx, "the table to be empty and every message to arrive", func() (bool, error) {
		ready, _, err := d.rows(ctx)
		return err == nil && ready == 0 && d.broker.has(d.published) == len(d.published), err
	})
}

// rows counts the rows left.
func (d *demo) rows(ctx context.Context) (ready, dead int64, err error) {
	stats, err := d.store.Stats(ctx, demoService)
	for _, s := range stats {
		ready, dead = ready+s.Ready, dead+s.Dead
	}
	return ready, dead, err
}

// body is a JSON document of random size.
func (d *demo) body() []byte {
	return fmt.Appendf(nil, `{"order":%d,"note":"%0*d"}`, d.random.IntN(1e6), 1+d.random.IntN(800), 0)
}

// message is a new message for the demo's exchange.
func (d *demo) message(key string) model.Message {
	return model.Message{
		ID: model.NewID(), Exchange: d.broker.exchange, RoutingKey: key, Body: d.body(),
		Key:        fmt.Sprintf("order-%d", len(d.published)+len(d.rolledBack)),
		Properties: model.Properties{ContentType: "application/json"},
	}
}

// showRows prints a few rows the way `transmsg messages list` does.
func (d *demo) showRows(ctx context.Context, f model.Filter, total int) error {
	const few = 3
	f.Limit = few
	rows, err := d.store.List(ctx, f)
	if err != nil {
		return err
	}
	now, err := d.store.Now(ctx)
	if err != nil {
		return err
	}
	var table strings.Builder
	if err := printRows(&table, rows, now); err != nil {
		return err
	}
	for line := range strings.Lines(table.String()) {
		d.say("    %s", strings.TrimRight(line, "\n"))
	}
	if total > len(rows) {
		d.say("    ... and %d more", total-len(rows))
	}
	return nil
}
