package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
)

// trouble is one thing that is wrong, with a virtual host, a database and a daemon of its own.
type trouble struct {
	name     string
	words    *regexp.Regexp // of the cause, in the log
	alerts   bool           // an alert says what sends the rows again
	exchange string
	make     func(*trouble) error
	repair   func(*trouble) error

	vhost, dsn string
	broker     *amqptest.Client
	db         *table
	settings   map[string]any // the daemon's
	daemons    []replica
	starts     int
}

// troubles are those of this run; that of the node is for itself.
func (o *operator) troubles() []*trouble {
	exchange := func(t *trouble) error { return t.broker.Exchange("orders", "topic", nil) }
	route := func(t *trouble) error {
		return joined(exchange(t), t.broker.Queue(amqptest.QueueSpec{Name: "q"}), t.broker.Bind("q", "orders", "#"))
	}
	setting := func(name string, value any) func(*trouble) error {
		return func(t *trouble) error {
			t.settings[name] = value
			return route(t)
		}
	}
	restart := func(name string, value func(*trouble) any) func(*trouble) error {
		return func(t *trouble) error {
			if err := o.stopThose(t); err != nil {
				return err
			}
			t.settings[name] = value(t)
			return o.startDaemon(t)
		}
	}
	right := func(t *trouble) any { return o.node.URLFor("guest", "guest", t.vhost) }
	all := []*trouble{
		{name: "binding", words: regexp.MustCompile("no queue is bound"), alerts: true, make: exchange, repair: route},
		{
			name: "exchange", words: regexp.MustCompile("does not exist"), alerts: true,
			make: func(*trouble) error { return nil }, repair: route,
		},
		{
			name: "vhost", words: regexp.MustCompile("virtual host does not exist"),
			make: setting("amqp", o.node.URLFor("guest", "guest", "t-nowhere")), repair: restart("amqp", right),
		},
		{
			name: "password", words: regexp.MustCompile("refuses user or password"),
			make:   setting("amqp", o.node.URLFor("guest", "wrong-password", "t-password")),
			repair: restart("amqp", right),
		},
		o.rights(route), o.full(route),
		{
			name: "service", words: regexp.MustCompile("services that are not named"),
			make:   setting("services", []string{"shops"}),
			repair: restart("services", func(*trouble) any { return []string{"shop"} }),
		},
		o.twoDaemons(route),
	}
	for _, t := range all {
		t.exchange = "orders"
	}
	return all
}

// rights is a user who may not write to the exchange.
func (o *operator) rights(route func(*trouble) error) *trouble {
	return &trouble{
		name: "rights", words: regexp.MustCompile("not allowed|no right|no permission|may not"), alerts: true,
		make: func(t *trouble) error {
			t.settings["amqp"] = o.node.URLFor("clerk", "clerk-password", t.vhost)
			return joined(route(t), o.node.AddUser("clerk", "clerk-password", "", "", ""),
				o.node.SetPermissions("clerk", t.vhost, "", "", ".*"))
		},
		repair: func(t *trouble) error { return o.node.SetPermissions("clerk", t.vhost, "", ".*", ".*") },
	}
}

// full is a queue that takes no more.
func (o *operator) full(route func(*trouble) error) *trouble {
	return &trouble{
		name: "full", words: regexp.MustCompile("a queue refused the message, such as a full one"), alerts: true,
		make: func(t *trouble) error {
			args := amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"}
			return joined(t.broker.Exchange("orders", "topic", nil),
				t.broker.Queue(amqptest.QueueSpec{Name: "full", Args: args}), t.broker.Bind("full", "orders", "#"),
				t.broker.Publish(context.Background(), "orders", "first", amqp.Publishing{Body: []byte("x")}))
		},
		repair: func(t *trouble) error { return joined(t.broker.DeleteQueue("full"), route(t)) },
	}
}

// twoDaemons are two with different settings: one of them looks at another virtual host, where
// the exchange is missing.
func (o *operator) twoDaemons(route func(*trouble) error) *trouble {
	t := &trouble{name: "two", words: regexp.MustCompile("does not exist")}
	t.make = func(t *trouble) error {
		if err := joined(route(t), o.node.AddVHost("t-other")); err != nil {
			return err
		}
		// The one that is right begins when the other one has met its trouble: see repair.
		t.settings["amqp"] = o.node.URLFor("guest", "guest", "t-other")
		return nil
	}
	t.repair = func(t *trouble) error {
		wrong := t.daemons[0]
		t.settings["amqp"] = o.node.URLFor("guest", "guest", t.vhost)
		if err := o.startDaemon(t); err != nil {
			return err
		}
		return wrong.stop()
	}
	return t
}

// nodeDown stops the broker under a daemon: no attempt is spent, few lines, and all goes out.
func (o *operator) nodeDown(ctx context.Context) error {
	t := &trouble{
		name: "node", words: regexp.MustCompile("nothing listens there"), exchange: "orders",
		make: func(t *trouble) error {
			return joined(t.broker.Exchange("orders", "topic", nil), t.broker.Queue(amqptest.QueueSpec{Name: "q"}),
				t.broker.Bind("q", "orders", "#"), o.node.Stop())
		},
		repair: func(t *trouble) error {
			charged, err := t.db.charged(ctx)
			o.Breaches.Check(len(charged) == 0, "node: %d rows were charged for an outage", len(charged))
			return joined(err, o.node.Start(ctx))
		},
	}
	if err := o.begin(ctx, t); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	return o.through(ctx, t)
}

func (o *operator) clientOf(vhost string) (*amqptest.Client, error) {
	c, err := amqptest.Dial(o.node.URLFor("guest", "guest", vhost))
	if err == nil {
		o.later(func() error {
			_ = c.Close() // the node may have closed it
			return nil
		})
	}
	return c, err
}

func joined(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// log is what all daemons of the trouble have logged.
func (t *trouble) log() string {
	var all strings.Builder
	for _, d := range t.daemons {
		text, err := os.ReadFile(d.log)
		if err != nil {
			return err.Error()
		}
		all.Write(text)
	}
	return all.String()
}

var quotedCommand = regexp.MustCompile("`(transmsg [^`]+)`")

// commands are the shell lines in the alerts and in the log, each once.
func (t *trouble) commands() []string {
	var all []string
	add := func(line string) {
		if line != "" && !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	for text := range strings.Lines(t.log()) {
		var entry struct {
			Alert struct{ Command, Resend string }
		}
		if json.Unmarshal([]byte(text), &entry) == nil {
			add(entry.Alert.Command)
			add(entry.Alert.Resend)
		}
		for _, m := range quotedCommand.FindAllStringSubmatch(text, -1) {
			add(m[1])
		}
	}
	return all
}
