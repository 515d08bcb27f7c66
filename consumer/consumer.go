package consumer

import (
	"context"
	"errors"
	"fmt"
)

// Consumer consumes queues on a connection of its own. It is safe for concurrent use; Run may be called once.
type Consumer struct {
	cfg Config
}

// New validates the config; it starts and connects nothing.
func New(cfg Config) (*Consumer, error) {
	cfg = cfg.withDefaults()
	if len(cfg.Queues) == 0 {
		return nil, errors.New("consumer: config: Queues is empty")
	}
	for i := range cfg.Queues {
		if err := cfg.Queues[i].validate(fmt.Sprintf("consumer: config: queue %q", cfg.Queues[i].Name)); err != nil {
			return nil, err
		}
	}
	return &Consumer{cfg: cfg}, nil
}

// Run consumes until ctx ends, drains and returns.
func (c *Consumer) Run(ctx context.Context) error {
	<-ctx.Done()
	return errors.New("consumer: run: not built yet")
}
