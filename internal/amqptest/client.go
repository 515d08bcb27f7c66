package amqptest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Queue types of RabbitMQ for QueueSpec.Type.
const (
	Classic = "classic"
	Quorum  = "quorum"
)

// QueueSpec describes a queue, durable unless it says otherwise.
type QueueSpec struct {
	Name string
	// Type is Classic or Quorum; "" means Classic.
	Type string
	// Transient queues are gone with their messages when the broker restarts,
	// AutoDelete ones when their last consumer leaves.
	Transient, AutoDelete bool
	// Args are further arguments, such as x-max-length.
	Args amqp.Table
}

// Client is a test's own view of one virtual host, on a connection of its own:
// declares topology, counts and collects messages. Safe for concurrent use.
type Client struct {
	conn *amqp.Connection
	mu   sync.Mutex
	ch   *amqp.Channel // nil after a channel error until the next call.
}

// Connect dials url and fails the test when that does not work; the connection
// is closed when the test ends.
func Connect(tb TB, url string) *Client {
	tb.Helper()
	c, err := Dial(url)
	if err != nil {
		tb.Fatalf("amqptest: %v", err)
		return nil
	}
	tb.Cleanup(func() {
		// The broker may be gone by now, on purpose.
		if err := c.Close(); err != nil && !errors.Is(err, amqp.ErrClosed) {
			tb.Errorf("amqptest: %v", err)
		}
	})
	return c
}

// Dial is Connect for programs; the caller closes the Client.
func Dial(url string) (*Client, error) {
	conn, err := amqp.Dial(url)
	if err != nil {
		return nil, fmt.Errorf("connect to the broker: %w", err)
	}
	return &Client{conn: conn}, nil
}

// Close closes the connection. The error is amqp.ErrClosed when it was closed
// already, by us or by the broker.
func (c *Client) Close() error {
	if err := c.conn.CloseDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return fmt.Errorf("close the test's connection: %w", err)
	}
	return nil
}

// Version is the broker's, as it says when a connection is opened.
func (c *Client) Version() string { return fmt.Sprint(c.conn.Properties["version"]) }

// Exchange declares a durable exchange: direct, fanout, topic, headers or one
// of a plugin.
func (c *Client) Exchange(name, kind string, args amqp.Table) error {
	return c.do("declare exchange "+name, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(name, kind, true, false, false, false, args)
	})
}

// InternalExchange declares a durable exchange that refuses publishes (403).
func (c *Client) InternalExchange(name, kind string) error {
	return c.do("declare internal exchange "+name, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(name, kind, true, false, true, false, nil)
	})
}

// Queue declares a queue.
func (c *Client) Queue(spec QueueSpec) error {
	args := amqp.Table{"x-queue-type": Classic}
	if spec.Type != "" {
		args["x-queue-type"] = spec.Type
	}
	for k, v := range spec.Args {
		args[k] = v
	}
	return c.do("declare queue "+spec.Name, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(spec.Name, !spec.Transient, spec.AutoDelete, false, false, args)
		return err
	})
}

// Bind binds a queue to an exchange.
func (c *Client) Bind(queue, exchange, key string) error {
	return c.do("bind queue "+queue, func(ch *amqp.Channel) error {
		return ch.QueueBind(queue, key, exchange, false, nil)
	})
}

// BindExchange passes what an exchange gets under a key on to another one.
func (c *Client) BindExchange(destination, source, key string) error {
	return c.do("bind exchange "+destination, func(ch *amqp.Channel) error {
		return ch.ExchangeBind(destination, key, source, false, nil)
	})
}

// Unbind removes one binding.
func (c *Client) Unbind(queue, exchange, key string) error {
	return c.do("unbind queue "+queue, func(ch *amqp.Channel) error {
		return ch.QueueUnbind(queue, key, exchange, nil)
	})
}

// DeleteExchange deletes an exchange, also when it is bound.
func (c *Client) DeleteExchange(name string) error {
	return c.do("delete exchange "+name, func(ch *amqp.Channel) error {
		return ch.ExchangeDelete(name, false, false)
	})
}

// DeleteQueue deletes a queue with its messages.
func (c *Client) DeleteQueue(name string) error {
	return c.do("delete queue "+name, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(name, false, false, false)
		return err
	})
}

// Purge removes the ready messages of a queue and says how many there were.
func (c *Client) Purge(queue string) (n int, err error) {
	err = c.do("purge queue "+queue, func(ch *amqp.Channel) error {
		n, err = ch.QueuePurge(queue, false)
		return err
	})
	return n, err
}

// Depth returns the number of ready messages of a queue. A quorum queue may
// report a figure that is some milliseconds old: poll for the one you want.
func (c *Client) Depth(queue string) (n int, err error) {
	err = c.do("depth of queue "+queue, func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		n = q.Messages
		return err
	})
	return n, err
}

// Publish sends one message in confirm mode and waits for the broker's ack. It
// is for filling queues, not the thing under test.
func (c *Client) Publish(ctx context.Context, exchange, key string, msg amqp.Publishing) error {
	return c.do("publish", func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		dc, err := ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, false, false, msg)
		if err != nil {
			return err
		}
		acked, err := dc.WaitContext(ctx)
		if err == nil && !acked {
			err = errors.New("nack")
		}
		return err
	})
}

// do runs f on the client's channel. After an error the channel may be closed
// by the broker, so the next call opens a new one.
func (c *Client) do(op string, f func(*amqp.Channel) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ch == nil || c.ch.IsClosed() {
		ch, err := c.conn.Channel()
		if err != nil {
			return fmt.Errorf("%s: open channel: %w", op, err)
		}
		c.ch = ch
	}
	if err := f(c.ch); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}
