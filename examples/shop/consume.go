package shop

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/consumer/effect"
)

// Consume handles the messages of a queue. What fails goes round the ladder of topology.yaml; what fails for good is a
// dead letter.
func Consume(url, queue string, once *effect.Once, handler consumer.Handler) Part {
	return func(ctx context.Context) error {
		cfg, err := consumer.ParseURL(url)
		if err != nil {
			return err
		}
		broker, err := confirms.ParseURL(url)
		if err != nil {
			return err
		}
		sender, err := confirms.Open(broker) // for the copies: retries and dead letters
		if err != nil {
			return err
		}
		cfg.Sender, cfg.Redeliveries = sender, once
		cfg.Queues = []consumer.Queue{{
			Name: queue, DeadLetterExchange: DeadLetters, Handler: handler, Deadline: 10 * time.Second,
			Steps: []time.Duration{time.Second, 2 * time.Second, 5 * time.Second}, // a shop of yours waits longer
			Key:   number,
		}}
		c, err := consumer.New(cfg)
		if err == nil {
			err = c.Run(ctx)
		}
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		return errors.Join(err, sender.Close(closing))
	}
}

// number is the order's number: by it people find a dead letter. A body that has none is found by other things.
func number(m *consumer.Message) string {
	var event struct{ Number string }
	if json.Unmarshal(m.Body, &event) != nil {
		return ""
	}
	return event.Number
}
