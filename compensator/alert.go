package compensator

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/transmsg/transmsg/model"
)

const (
	alertQueue   = 1024
	alertTimeout = 5 * time.Second
)

// Alert tells a person about a row that will not be delivered without help.
type Alert struct {
	// Status is the row's: DEAD, or READY for a row that waits for an upgrade.
	Status                        model.Status
	Service, Exchange, RoutingKey string
	// Code and Text are the cause.
	Code model.Code
	Text string
	// ID and Key name the row. Body and headers are never part of an alert.
	ID, Key string
	// Attempts are the sends that were answered with a failure about this message.
	Attempts int
	// Instance is the compensator that decided.
	Instance string
	// Command shows more.
	Command string
}

// String returns the alert for people, in one line.
func (a Alert) String() string {
	return fmt.Sprintf("%s message %s of %s to exchange %q with key %q after %d attempts: %s %s; see: %s",
		a.Status, a.ID, a.Service, a.Exchange, a.RoutingKey, a.Attempts, a.Code, a.Text, a.Command)
}

// Alerter delivers alerts. It is called from one goroutine, off the way of the messages,
// with a context of 5 s; an error or a panic makes the alert a line of the log.
type Alerter interface {
	Alert(context.Context, Alert) error
}

// LogAlerter is an [Alerter] that writes to a log, at level error.
type LogAlerter struct {
	Logger *slog.Logger // required
}

// Alert implements [Alerter]. It never fails.
func (l LogAlerter) Alert(_ context.Context, a Alert) error {
	l.Logger.Error("message needs attention", a.attrs(nil)...)
	return nil
}

// attrs are the alert for a log.
func (a Alert) attrs(err error) []any {
	args := []any{
		"status", string(a.Status), "id", a.ID, "key", a.Key, "service", a.Service,
		"exchange", a.Exchange, "routing_key", a.RoutingKey, "code", string(a.Code), "text", a.Text,
		"attempts", a.Attempts, "instance", a.Instance, "command", a.Command,
	}
	if err != nil {
		args = append(args, "error", err)
	}
	return args
}

// alerts is the bounded queue between those who decide and the Alerter.
type alerts struct {
	alerter  Alerter
	log      *slog.Logger
	observed func(Alert, bool)
	queue    chan Alert
}

// add never blocks: what the queue does not take is logged at once, never dropped.
func (q *alerts) add(a Alert) {
	select {
	case q.queue <- a:
	default:
		q.log.Error("alert not delivered: queue is full", a.attrs(nil)...)
		q.observed(a, false)
	}
}

// run delivers until ctx ends, then what is queued by then within hard, and logs what is
// left after that.
func (q *alerts) run(ctx, hard context.Context) {
	for {
		select {
		case a := <-q.queue:
			q.deliver(hard, a)
			continue
		default:
		}
		select {
		case a := <-q.queue:
			q.deliver(hard, a)
		case <-ctx.Done():
			if len(q.queue) == 0 {
				return
			}
		}
	}
}

func (q *alerts) deliver(ctx context.Context, a Alert) {
	err := q.try(ctx, a)
	if err != nil {
		q.log.Error("alert not delivered", a.attrs(err)...)
	}
	q.observed(a, err == nil)
}

func (q *alerts) try(ctx context.Context, a Alert) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("alerter panicked: %v", p)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, alertTimeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	return q.alerter.Alert(ctx, a)
}
