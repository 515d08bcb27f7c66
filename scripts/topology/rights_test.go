package topology_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
)

// act is one thing that a login may or may not do, on a channel of its own.
type act struct {
	name string
	do   func(context.Context, *amqp.Channel) error
}

func (a act) try(ctx context.Context, conn *amqp.Connection) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	err = a.do(ctx, ch)
	if errors.Is(err, errNotAcked) {
		// A refused publish closes the channel, which the library reports as a nack.
		if cause := <-closed; cause != nil {
			return cause
		}
	}
	_ = ch.Close() // closed already after a refusal
	return err
}

var errNotAcked = errors.New("not acked")

func publish(exchange, key string) act {
	return act{"publish to exchange " + exchange, func(ctx context.Context, ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, false, false,
			amqp.Publishing{Body: []byte("x"), DeliveryMode: amqp.Persistent})
		if err != nil {
			return err
		}
		acked, err := confirm.WaitContext(ctx)
		if err == nil && !acked {
			err = errNotAcked
		}
		return err
	}}
}

func consume(queue string) act {
	return act{"consume from " + queue, func(ctx context.Context, ch *amqp.Channel) error {
		deliveries, err := ch.ConsumeWithContext(ctx, queue, "", true, false, false, false, nil)
		if err != nil {
			return err
		}
		if _, ok := <-deliveries; !ok {
			return errors.New("nothing delivered")
		}
		return nil
	}}
}

func declare() act {
	return act{"declare a queue", func(_ context.Context, ch *amqp.Channel) error {
		_, err := ch.QueueDeclare("new", true, false, false, false, nil)
		return err
	}}
}

func bind() act {
	return act{"bind a queue", func(_ context.Context, ch *amqp.Channel) error {
		return ch.QueueBind("orders.all", "stolen", "payments", false, nil)
	}}
}

// dial opens a connection that is closed when the test ends.
func dial(t *testing.T, url string) *amqp.Connection {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestEachUserCanDoItsWorkAndNoMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must("apply")
	for _, tc := range []struct {
		user, password string
		may, mayNot    []act
	}{
		{
			w.env["TOPOLOGY_PUBLISHER_USER"], publisherPassword,
			[]act{publish("orders", "order.placed"), publish("payments", "payment.made")},
			[]act{publish("", "orders.all"), publish("dead-letters", ""), consume("orders.all"), declare(), bind()},
		},
		{
			w.env["TOPOLOGY_COMPENSATOR_USER"], compensatorPassword,
			[]act{publish("orders", "order.placed"), publish("payments", "payment.made"), publish("", "payments.all")},
			[]act{publish("dead-letters", ""), consume("orders.all"), declare(), bind()},
		},
		{
			w.env["TOPOLOGY_CONSUMER_USER"], consumerPassword,
			[]act{consume("orders.all"), consume("payments.all")},
			[]act{publish("orders", "order.placed"), publish("", "orders.all"), declare(), bind()},
		},
	} {
		conn := dial(t, broker.node.URLFor(tc.user, tc.password, w.vhost))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		for _, a := range tc.may {
			if err := a.try(ctx, conn); err != nil {
				t.Errorf("%s: %s: %v", tc.user, a.name, err)
			}
		}
		for _, a := range tc.mayNot {
			var refused *amqp.Error
			if err := a.try(ctx, conn); !errors.As(err, &refused) || refused.Code != amqp.AccessRefused {
				t.Errorf("%s: %s = %v, want 403", tc.user, a.name, err)
			}
		}
		cancel()
	}
}

func TestRejectedMessageReachesTheDeadLetterQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must("apply")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	admin := dial(t, broker.node.URLFor("guest", "guest", w.vhost))
	if err := publish("orders", "order.placed").try(ctx, admin); err != nil {
		t.Fatal(err)
	}
	url := broker.node.URLFor(w.env["TOPOLOGY_CONSUMER_USER"], consumerPassword, w.vhost)
	ch, err := dial(t, url).Channel()
	if err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.ConsumeWithContext(ctx, "orders.all", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := (<-deliveries).Reject(false); err != nil {
		t.Fatal(err)
	}
	dead, err := amqptest.Connect(t, url).Collect(ctx, "dead-letters", 1)
	if err != nil {
		t.Fatal(err)
	}
	if dead[0].RoutingKey != "order.placed" {
		t.Errorf("the dead letter has key %q, want the original", dead[0].RoutingKey)
	}
}

func TestSettingsAreRefusedBeforeAnythingIsDone(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "absent")
	for text, env := range map[string]map[string]string{
		"unknown environment variable TOPOLOGY_VHSOT":            {"TOPOLOGY_VHSOT": "/"},
		"TOPOLOGY_API must be":                                   {"TOPOLOGY_API": "http://guest:canary@localhost"},
		"'orders' must be exchange:queue:key":                    {"TOPOLOGY_ROUTES": "orders"},
		"'a b' must be letters":                                  {"TOPOLOGY_DEAD_LETTER_QUEUE": "a b"},
		"is also in TOPOLOGY_ROUTES":                             {"TOPOLOGY_DEAD_LETTER_QUEUE": "orders.all"},
		"must be four different users":                           {"TOPOLOGY_CONSUMER_USER": "guest"},
		"TOPOLOGY_PUBLISHER_PASSWORD (or ..._FILE) is required":  {"TOPOLOGY_PUBLISHER_PASSWORD": ""},
		"give one of them":                                       {"TOPOLOGY_COMPENSATOR_PASSWORD": "canary"},
		"No such file":                                           {"TOPOLOGY_COMPENSATOR_PASSWORD_FILE": empty},
		"control characters":                                     {"TOPOLOGY_PUBLISHER_PASSWORD": "canary\nx"},
		"ADMIN_PASSWORD or TOPOLOGY_ADMIN_PASSWORD_FILE is requ": {"TOPOLOGY_ADMIN_USER": "someone"},
	} {
		w := newWorld(t)
		for k, v := range env {
			w.env[k] = v
		}
		r := w.run("apply")
		if r.code != 2 || !strings.Contains(r.errOut, text) || r.out != "" {
			t.Errorf("%v = %d, want 2 and %q:\n%s%s", env, r.code, text, r.out, r.errOut)
		}
	}
}
