package topology_test

import (
	"context"
	"errors"
	"fmt"
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

// consumeNothing subscribes and leaves again.
func consumeNothing(queue string) act {
	return act{"subscribe to " + queue, func(ctx context.Context, ch *amqp.Channel) error {
		_, err := ch.ConsumeWithContext(ctx, queue, "", true, false, false, false, nil)
		return err
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
		return ch.QueueBind("orders.all", "stolen", "shipping", false, nil)
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
	w.run(0, "apply")
	for _, tc := range []struct {
		user        string
		may, mayNot []act
	}{
		{
			"p-",
			[]act{publish("orders", "order.placed"), publish("shipping", "parcel.sent")},
			[]act{publish("", "orders.all"), publish("dead-letters", ""), consume("orders.all"), declare(), bind()},
		},
		{
			"k-",
			[]act{publish("orders", "order.placed"), publish("shipping", "parcel.sent"), publish("", "orders.all")},
			[]act{publish("dead-letters", ""), consume("orders.all"), declare(), bind()},
		},
		{
			"c-",
			[]act{
				consume("orders.all"), publish("", "orders.all.retry.1m"), publish("dead-letters", "orders.all"),
				consumeNothing("shipping.all.2"),
			},
			[]act{publish("orders", "order.placed"), consume("dead-letters"), declare(), bind()},
		},
		{
			"l-",
			[]act{consume("dead-letters")},
			[]act{
				publish("orders", "order.placed"), publish("", "orders.all"), consume("orders.all"), declare(), bind(),
			},
		},
	} {
		conn := dial(t, broker.node.URLFor(tc.user+w.tag, password, w.vhost))
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

// A copy that has waited comes back to the work queue, and what is rejected there is a dead letter with its key.
func TestLadderAndDeadLettersLeadWhereTheyShould(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(0, "apply")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn := dial(t, broker.node.URLFor("c-"+w.tag, password, w.vhost))
	if err := publish("", "orders.all.retry.100ms").try(ctx, conn); err != nil {
		t.Fatal(err)
	}
	ch, err := conn.Channel()
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
	collector := amqptest.Connect(t, broker.node.URLFor("l-"+w.tag, password, w.vhost))
	dead, err := collector.Collect(ctx, "dead-letters", 1)
	if err != nil {
		t.Fatal(err)
	}
	if dead[0].RoutingKey != "orders.all" {
		t.Errorf("the dead letter has key %q, want the work queue", dead[0].RoutingKey)
	}
}

// Messages with one key are in one partition, and all partitions together have all messages, each once.
func TestPartitionsKeepKeysTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(0, "apply")
	admin := w.admin()
	const keys, each = 30, 3
	for i := range keys * each {
		msg := amqp.Publishing{Body: []byte("x")}
		if err := admin.Publish(t.Context(), "shipping", fmt.Sprintf("parcel.%d", i%keys), msg); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ch, err := dial(t, broker.node.URLFor("c-"+w.tag, password, w.vhost)).Channel()
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan [2]string)
	for i := range 3 {
		queue := fmt.Sprintf("shipping.all.%d", i)
		deliveries, err := ch.ConsumeWithContext(ctx, queue, "", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for d := range deliveries {
				got <- [2]string{d.RoutingKey, queue}
			}
		}()
	}
	home, used := map[string]string{}, map[string]bool{}
	for range keys * each {
		select {
		case m := <-got:
			if other, ok := home[m[0]]; ok && other != m[1] {
				t.Errorf("key %s is in %s and in %s", m[0], other, m[1])
			}
			home[m[0]], used[m[1]] = m[1], true
		case <-ctx.Done():
			t.Fatal("not all messages are in the partitions")
		}
	}
	if len(used) < 2 {
		t.Errorf("all keys are in one partition: %v", used)
	}
}
