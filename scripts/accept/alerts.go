package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

const (
	alertsWindow  = 4 * time.Second
	alertsPayment = "payments"
	// alertsApart is how many alerts of one service, exchange and cause may go out within a
	// window: those told apart, and the one that gathers the rest.
	alertsApart = model.MaxAlertNames + 1
)

// alertsCheck floods three receivers of alerts, one of which throttles or hangs.
func alertsCheck() check {
	return check{
		name: "alerts",
		about: "ids in keys without a binding, missing exchanges, a full queue, poison, a sink that throttles, " +
			"kill -9: every row is told to each sink, folded, and a payment's alert goes before",
		run: onServer(worldOptions{}, func(ctx context.Context, w *world) (figures, error) {
			f := &alertFlood{world: w, exchange: w.name("ex"), want: map[string]int{}, sinks: map[string]*alertSink{}}
			for _, part := range []func(context.Context) error{f.prepare, f.flood, f.told} {
				if err := part(ctx); err != nil {
					return f.figs, err
				}
			}
			return f.figs, nil
		}),
	}
}

type alertFlood struct {
	*world
	exchange string
	sinks    map[string]*alertSink // good, chat, bad
	now      replica
	starts   int
	exempt   []string       // settings of DEAD that this binary knows
	want     map[string]int // rows by service and code
	begin    time.Time
	figs     figures
}

func (f *alertFlood) prepare(ctx context.Context) error {
	mode := []string{sinkThrottles, sinkHangs}[f.Rand.IntN(2)]
	for name, how := range map[string]string{"good": sinkWorks, "chat": sinkWorks, "bad": mode} {
		sink, err := f.newAlertSink(how, time.Duration(2+f.Rand.IntN(3))*time.Second)
		if err != nil {
			return err
		}
		f.sinks[name] = sink
	}
	full := f.name("full")
	for _, err := range []error{
		f.broker.Exchange(f.exchange, "direct", nil),
		f.broker.Queue(amqptest.QueueSpec{Name: full, Args: amqp.Table{
			"x-max-length": int32(1), "x-overflow": "reject-publish",
		}}),
		f.broker.Bind(full, f.exchange, "full"),
		f.broker.Publish(ctx, f.exchange, "full", amqp.Publishing{Body: []byte("fills the queue")}),
	} {
		if err != nil {
			return err
		}
	}
	help, err := exec.CommandContext(ctx, f.binary, "compensator", "--help").Output()
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	if strings.Contains(string(help), "--min-dead-age") {
		f.exempt = []string{"--min-dead-age", "0"}
	}
	f.figs = figures{"bad_sink": mode}
	return f.start()
}

// start starts the compensator, again. The one that misbehaves is the webhook, and the chat
// comes before the good one: an order of the sinks must not matter.
func (f *alertFlood) start() (err error) {
	f.starts++
	generic := func(name string) string { return "generic+" + f.sinks[name].url }
	args := append([]string{
		"--interval", "100ms", "--max-attempts", "1", "--min-dead-age", "0",
		"--base-delay", "100ms", "--max-delay", "200ms",
		"--alert-window", alertsWindow.String(), "--alert-webhook", f.sinks["bad"].url,
		"--alert-url", generic("chat") + " " + generic("good"),
	}, f.exempt...)
	f.now, err = f.replica(f.binary, fmt.Sprintf("alerts-%d", f.starts), args...)
	return err
}

// alertCause is rows that die in one way.
type alertCause struct {
	service, code string
	rows          int
	to            func(i int) (exchange, key string)
}

func (f *alertFlood) causes() []alertCause {
	here := func(key string) func(int) (string, string) {
		return func(int) (string, string) { return f.exchange, key }
	}
	ids := func(i int) (string, string) {
		return f.exchange, fmt.Sprintf("order.%s%d.created", letters(f.Rand, 6), i)
	}
	return []alertCause{
		{"orders", "312", 150 + f.Rand.IntN(150), ids},
		{"orders", "nack", 20 + f.Rand.IntN(80), here("full")},
		{"orders", "corrupt", 50 + f.Rand.IntN(100), ids},
		{"tenants", "404", 5 + f.Rand.IntN(6), func(i int) (string, string) {
			return fmt.Sprintf("%s-missing-%d", f.exchange, i), "key"
		}},
	}
}

// flood stores rows of all causes, a payment in their middle, and may kill the compensator.
func (f *alertFlood) flood(ctx context.Context) error {
	f.begin = time.Now()
	causes := f.causes()
	f.Rand.Shuffle(len(causes), func(i, k int) { causes[i], causes[k] = causes[k], causes[i] })
	payment := alertCause{alertsPayment, "312", 1 + f.Rand.IntN(3), func(int) (string, string) {
		return f.exchange, "captured"
	}}
	for i, c := range causes {
		if i == len(causes)/2 { // its alert is owed behind those of the rest
			if err := f.flooded(ctx); err != nil {
				return err
			}
			if err := f.store(ctx, payment); err != nil {
				return err
			}
		}
		if err := f.store(ctx, c); err != nil {
			return err
		}
	}
	if f.Rand.IntN(2) == 0 {
		return nil
	}
	seen := 1 + f.Rand.IntN(3)
	if err := until(ctx, time.Minute, "some alerts are told", func(context.Context) (bool, error) {
		return len(f.sinks["good"].accepted()) >= seen, nil
	}); err != nil {
		return err
	}
	if err := f.now.Kill(); err != nil {
		return err
	}
	return f.start()
}

// flooded waits until rows are DEAD, so that their alerts are owed before the payment's.
func (f *alertFlood) flooded(ctx context.Context) error {
	return until(ctx, time.Minute, "some rows are DEAD", func(ctx context.Context) (bool, error) {
		n, err := f.db.count(ctx, "status = 'DEAD'")
		return n > 0, err
	})
}

func (f *alertFlood) store(ctx context.Context, c alertCause) error {
	messages := make([]model.Message, c.rows)
	for i := range messages {
		exchange, key := c.to(i)
		messages[i] = f.message(exchange, key, i, 64)
		if c.code == "corrupt" { // not before it was spoilt
			messages[i].NotBefore = time.Now().Add(time.Hour)
		}
	}
	ids, err := f.shelve(ctx, c.service, messages)
	if err != nil {
		return err
	}
	f.want[c.service+" "+c.code] += c.rows
	if c.code != "corrupt" {
		return nil
	}
	for _, id := range ids {
		if err := f.db.exec(ctx, "UPDATE trans_message SET properties = ?, not_before = 0, "+
			"next_attempt_at = created_at WHERE id = ?", []byte(`{"v":1,"headers":`), id); err != nil {
			return err
		}
	}
	return nil
}

// told wants every row told to every sink, in few alerts, and the payment's among the first.
func (f *alertFlood) told(ctx context.Context) error {
	total := 0
	for _, n := range f.want {
		total += n
	}
	if err := until(ctx, 2*time.Minute, "all rows are DEAD", func(ctx context.Context) (bool, error) {
		n, err := f.db.count(ctx, "status = 'DEAD'")
		return n == total, err
	}); err != nil {
		return err
	}
	for _, name := range []string{"good", "chat", "bad"} {
		f.wait(ctx, name)
	}
	if err := f.now.stop(); err != nil {
		return err
	}
	windows := int64(time.Since(f.begin)/alertsWindow) + 1
	for name, sink := range f.sinks {
		alerts := sink.accepted()
		// A kill forgets what was told: all of it may come again, once for each start.
		f.Breaches.AtMost(name+": alerts", int64(len(alerts)),
			int64(len(f.want)*alertsApart*f.starts)+int64(len(f.want))*windows)
		for cause, n := range sink.rows() {
			f.Breaches.AtMost(name+": rows told of "+cause, int64(n), int64(f.want[cause]*f.starts))
		}
		before := -1
		for i, a := range alerts {
			if a.service == alertsPayment {
				before = i
				break
			}
		}
		f.Breaches.Check(before >= 0, "%s: no alert of the payment", name)
		f.Breaches.AtMost(name+": alerts before the payment's", int64(before), int64(len(f.want)*alertsApart*f.starts))
		f.figs["alerts_"+name], f.figs["before_payment_"+name] = len(alerts), before
	}
	f.figs["rows"], f.figs["starts"], f.figs["causes"] = total, f.starts, len(f.want)
	return nil
}

// wait until a sink was told of every row.
func (f *alertFlood) wait(ctx context.Context, name string) {
	missing := func() (out []string) {
		rows := f.sinks[name].rows()
		for cause, n := range f.want {
			if rows[cause] < n {
				out = append(out, fmt.Sprintf("%s: %d of %d", cause, rows[cause], n))
			}
		}
		return out
	}
	if err := until(ctx, 2*time.Minute, "all rows are told", func(context.Context) (bool, error) {
		return len(missing()) == 0, nil
	}); err != nil {
		f.Breaches.Add("%s: DEAD rows whose alert never came: %s", name, strings.Join(missing(), ", "))
	}
}
