package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/internal/demo"
)

func (l *lab) demoCommand() *cobra.Command {
	var (
		cfg    demo.Config
		broker brokerFlags
	)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch the whole job on RabbitMQ and an embedded SQLite store",
		Long: "Publishes, in and out of transactions, to an exchange of its own; sends messages to a key that\n" +
			"nobody bound; cuts the connection in the middle of a burst; lets some run out of attempts; repairs\n" +
			"what can be repaired with an embedded compensator; and counts what arrived on a real consumer. It\n" +
			"ends with a table and `lost 0`; any other end is exit code 1. Exchange, queue and the SQLite file,\n" +
			"in a folder of their own that is printed, are removed at the end.",
		Args: cobra.NoArgs,
	}
	fs := cmd.Flags()
	fs.Uint64Var(&cfg.Seed, "seed", 1, "seed of what is random: bodies and which transactions roll back")
	fs.IntVar(&cfg.Messages, "messages", 2000, fmt.Sprintf("messages in and out of transactions, %d to %d",
		demo.MinMessages, demo.MaxMessages))
	fs.BoolVar(&cfg.Keep, "keep", false, "keep the SQLite file, exchange and queue")
	broker.bind(fs, "error")
	cmd.RunE = l.verb(func(ctx context.Context) (err error) {
		if err := cfg.Validate(); err != nil {
			return usageError{err}
		}
		if cfg.Broker, err = broker.config("transmsg-lab demo", l.stderr); err != nil {
			return err
		}
		cfg.Logger, cfg.Out = cfg.Broker.Logger, l.stdout
		if l.jsonOut {
			cfg.Out = l.stderr // stdout is for the one JSON object
		}
		res, err := demo.Run(ctx, cfg)
		if res != nil && l.jsonOut {
			err = errors.Join(err, l.printJSON(res))
		}
		return err
	})
	return cmd
}
