package amqptest

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// errConsumerGone means that the broker cancelled the consumer or the
// connection ended.
var errConsumerGone = errors.New("the consumer ended")

// Collect consumes from a queue until n messages have arrived, acknowledges
// them and returns them in order of arrival. When ctx ends first it returns
// what has arrived and an error that says how many are missing. Messages beyond
// n stay in the queue.
func (c *Client) Collect(ctx context.Context, queue string, n int) ([]amqp.Delivery, error) {
	if n <= 0 {
		return nil, nil
	}
	ch, err := c.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("collect from %s: open channel: %w", queue, err)
	}
	// Closing the channel gives back what was delivered beyond n.
	defer ch.Close()
	if err := ch.Qos(min(n, 1000), 0, false); err != nil {
		return nil, fmt.Errorf("collect from %s: %w", queue, err)
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return nil, fmt.Errorf("collect from %s: %w", queue, err)
	}
	var got []amqp.Delivery
	for len(got) < n {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return got, fmt.Errorf("collect from %s: %d of %d: %w", queue, len(got), n, errConsumerGone)
			}
			if err := d.Ack(false); err != nil {
				return got, fmt.Errorf("collect from %s: %d of %d: %w", queue, len(got), n, err)
			}
			got = append(got, d)
		case <-ctx.Done():
			return got, fmt.Errorf("collect from %s: %d of %d: %w", queue, len(got), n, ctx.Err())
		}
	}
	return got, nil
}

// Drain takes what is ready in a queue now, acknowledges it and returns it. It
// waits for nothing: a message that the broker accepts later is not in it.
func (c *Client) Drain(queue string) ([]amqp.Delivery, error) {
	var got []amqp.Delivery
	err := c.do("drain queue "+queue, func(ch *amqp.Channel) error {
		for {
			d, ok, err := ch.Get(queue, true)
			if err != nil || !ok {
				return err
			}
			got = append(got, d)
		}
	})
	return got, err
}
