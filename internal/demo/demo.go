// Package demo is the story of `transmsg-lab demo`: the whole life of messages on a real broker, with
// an embedded store, counted by a real consumer.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
)

// What the demo does beside --messages, and its bounds.
const (
	unboundMessages = 100 // messages to a key that is bound later
	deadMessages    = 5   // messages that run out of attempts
	MinMessages     = 100
	MaxMessages     = 100_000
	patience        = 30 * time.Second // for one state to be reached
	connectTimeout  = 5 * time.Second  // for the broker at the start
	service         = "demo"
)

// policy tries again quickly, so that the whole life of a message fits into a demo.
var policy = model.Policy{
	BaseDelay: 300 * time.Millisecond, MaxDelay: 5 * time.Second, MaxAttempts: 4, MinDeadAge: model.None,
}

// Config says where the demo runs, and how much of it.
type Config struct {
	// Broker is where to publish; its user must be allowed to declare an exchange and a queue.
	Broker confirms.Config
	// Messages is how many are published in and out of transactions, MinMessages to MaxMessages.
	Messages int
	// Seed is that of what is random: bodies and which transactions roll back.
	Seed uint64
	// Keep leaves the SQLite file, exchange and queue.
	Keep bool
	// Out gets the story.
	Out io.Writer
	// Logger gets what the parts log.
	Logger *slog.Logger
}

// Validate names the field of c that is out of bounds.
func (c Config) Validate() error {
	if c.Messages < MinMessages || c.Messages > MaxMessages {
		return fmt.Errorf("--messages %d must be %d to %d", c.Messages, MinMessages, MaxMessages)
	}
	return nil
}

// Run plays the demo and judges it. The result is nil where it could not be played to its end; the
// error also says what was not as promised.
func Run(ctx context.Context, cfg Config) (res *Result, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	d := &demo{
		cfg: cfg, log: cfg.Logger, begin: time.Now(),
		random: rand.New(rand.NewPCG(cfg.Seed, 0)), published: map[string]bool{}, rolledBack: map[string]bool{},
	}
	defer func() { err = errors.Join(err, d.close(ctx)) }()
	if err := d.open(ctx, cfg.Broker); err != nil {
		return nil, err
	}
	for _, act := range []func(context.Context) error{d.publishing, d.unroutable, d.cutting, d.dying} {
		if err := act(ctx); err != nil {
			return nil, err
		}
	}
	return d.finish(ctx)
}

// say prints a line of the story. The alerter tells it too, from the compensator's
// goroutine.
func (d *demo) say(format string, args ...any) {
	d.sayMu.Lock()
	defer d.sayMu.Unlock()
	fmt.Fprintf(d.cfg.Out, format+"\n", args...)
}

// until waits for a state that is named in the error if it does not come.
func (d *demo) until(ctx context.Context, what string, reached func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
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
	stats, err := d.store.Stats(ctx, service)
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

// showRows prints a few rows, much as `transmsg messages list` does.
func (d *demo) showRows(ctx context.Context, f model.Filter, total int) error {
	const few = 3
	f.Limit = few
	rows, err := d.store.List(ctx, f)
	if err != nil {
		return err
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATUS\tROUTING KEY\tKEY\tATTEMPTS\tCAUSE")
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", r.ID, r.Status, r.RoutingKey, r.MessageKey, r.Attempts,
			r.LastCode.Words())
	}
	if err := w.Flush(); err != nil {
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

// waitReady waits for the broker for at most the given time, and says why there is none.
func waitReady(ctx context.Context, s *confirms.Sender, atMost time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	err := s.WaitReady(ctx)
	if err != nil && s.LastError() != nil {
		return s.LastError()
	}
	return err
}
