package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/internal/bench"
)

type benchOptions struct {
	store storeOptions
	amqp  amqpOptions
	log   logOptions
	bench.Config
	plot string
}

func (a *app) benchCommand() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure publish and drain on your servers against what they can do at most",
		Long: "Measures raw confirmed publishing (R_pub) and raw insert and delete (R_db), in turn with the\n" +
			"product's workloads, and prints each as a share of L = 1 / (1/R_pub + 1/R_db), the cost of doing\n" +
			"both one after the other. After every run the queue is emptied and counted: a lost or repeated\n" +
			"message is exit code 1. Servers whose settings could lose a commit are refused.\n\n" +
			"It makes schemas, an exchange and a queue with random names and deletes them at the end. Run it on a\n" +
			"machine that does nothing else: some 15 minutes, with --quick less than 50 seconds.",
		Args: noArgs,
	}
	fs := cmd.Flags()
	store := pflag.NewFlagSet("", pflag.ContinueOnError)
	store.StringVar(&o.store.dsn, "store", "mysql",
		"database: mysql, postgres or sqlite (on this machine), or a `DSN`: "+storeForms)
	store.StringVar(&o.store.dsnFile, "store-file", "", "`file` with the --store DSN, for a DSN with a password")
	fs.AddFlagSet(settings(store))
	fs.StringVar(&o.Queue, "queue", "quorum", "type of the queue, quorum or classic")
	fs.IntVar(&o.Body, "body", bench.DefaultBody, "bytes of a message's body, 16 to 1048576")
	fs.IntVar(&o.Messages, "messages", 0, fmt.Sprintf("messages of one publish run, 100 to 1000000; others follow "+
		"from it (default %d, with --quick %d)", bench.DefaultMessages, bench.QuickMessages))
	fs.IntVar(&o.Repetitions, "repetitions", 0, fmt.Sprintf("repetitions of each figure, 1 to 50 "+
		"(default %d, with --quick at most %d)", bench.DefaultRepetitions, bench.QuickRepetitions))
	fs.StringSliceVar(&o.Only, "only", nil, "only these workloads: "+strings.Join(bench.Workloads(), ", "))
	fs.IntSliceVar(&o.Callers, "callers", []int{1, 16, 64, 256, 1024}, "callers of publish and naive")
	fs.BoolVar(&o.Quick, "quick", false, "fewer rows, no million, fewer repetitions: less than 50 s in all")
	fs.StringVar(&o.plot, "plot", "", "write the rates as a chart to this SVG `file`")
	fs.StringVar(&o.ProfileDir, "profile", "", "write CPU, heap, block and mutex profiles to this `folder`")
	o.amqp.bind(fs)
	o.log.bind(fs, "warn")
	cmd.RunE = a.verb(func(ctx context.Context, _ []string) error { return a.bench(ctx, &o) })
	return cmd
}

func (a *app) bench(ctx context.Context, o *benchOptions) error {
	if err := o.resolve(a); err != nil {
		return err
	}
	rep, err := bench.Run(ctx, o.Config)
	if rep == nil {
		return err
	}
	// Also what was measured before an error is shown: it says what was lost.
	if a.jsonOut {
		err = errors.Join(err, printJSON(a.stdout, rep))
	} else {
		err = errors.Join(err, rep.WriteTable(a.stdout))
	}
	if o.plot != "" && err == nil {
		if werr := os.WriteFile(o.plot, rep.Chart().SVG(), 0o644); werr != nil {
			err = fmt.Errorf("--plot: %w", werr)
		}
	}
	return err
}

// resolve turns the flags into the bench's Config.
func (o *benchOptions) resolve(a *app) error {
	var err error
	if o.Store, err = oneSecret("store", o.store.dsn, o.store.dsnFile); err != nil {
		return err
	}
	a.secrets.addURL(o.Store)
	log, err := o.log.logger(a)
	if err != nil {
		return err
	}
	if o.Broker, err = o.amqp.config(a, "transmsg bench", log); err != nil {
		return err
	}
	o.Progress = a.stderr
	if err := o.Validate(); err != nil {
		return usagef("%w", err)
	}
	return nil
}
