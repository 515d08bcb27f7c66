package amqptest

import (
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/model"
)

// Work declares a work queue with its ladder, and a fanout exchange with one queue, both named dead, for its dead
// letters, all of them quorum queues as the topology script declares them.
func (c *Client) Work(l model.Ladder, dead string) error {
	if err := errors.Join(
		c.Exchange(dead, "fanout", nil),
		c.Queue(QueueSpec{Name: dead, Type: Quorum}),
		c.Bind(dead, dead, ""),
		c.Queue(QueueSpec{Name: l.Queue, Type: Quorum, Args: amqp.Table{
			"x-dead-letter-exchange": dead, "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
			"x-delivery-limit": int64(1000),
		}}),
	); err != nil {
		return err
	}
	for i := range l.Steps {
		if err := c.Step(l, i); err != nil {
			return err
		}
	}
	return nil
}

// Step declares the queue of one step of a ladder.
func (c *Client) Step(l model.Ladder, i int) error {
	return c.Queue(QueueSpec{Name: l.StepQueue(i), Type: Quorum, Args: l.StepArguments(i)})
}
