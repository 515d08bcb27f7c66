package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/internal/bench"
)

type benchOptions struct {
	bench.Config
	broker    brokerFlags
	storeFile string
	plot      string
}

func (l *lab) benchCommand() *cobra.Command {
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
		Args: cobra.NoArgs,
	}
	fs := cmd.Flags()
	fs.StringVar(&o.Store, "store", "", "database: mysql, postgres or sqlite (on this machine), or a `DSN`: "+
		"mysql://user:password@host:3306/db, postgres://user:password@host:5432/db or sqlite:PATH (default mysql)")
	fs.StringVar(&o.storeFile, "store-file", "", "`file` with the --store DSN, for a DSN with a password")
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
	o.broker.bind(fs, "warn")
	cmd.RunE = l.verb(func(ctx context.Context) error { return l.bench(ctx, &o) })
	return cmd
}

func (l *lab) bench(ctx context.Context, o *benchOptions) error {
	if err := o.resolve(l.stderr); err != nil {
		return err
	}
	rep, err := bench.Run(ctx, o.Config)
	if rep == nil {
		return err
	}
	// Also what was measured before an error is shown: it says what was lost.
	if l.jsonOut {
		err = errors.Join(err, l.printJSON(rep))
	} else {
		err = errors.Join(err, rep.WriteTable(l.stdout))
	}
	if o.plot != "" && err == nil {
		if werr := os.WriteFile(o.plot, rep.Chart().SVG(), 0o644); werr != nil {
			err = fmt.Errorf("--plot: %w", werr)
		}
	}
	return err
}

// resolve turns the flags into the bench's Config.
func (o *benchOptions) resolve(stderr io.Writer) error {
	var err error
	if o.Store, err = valueOrFile("store", o.Store, o.storeFile, "mysql"); err != nil {
		return err
	}
	if o.Broker, err = o.broker.config("transmsg-lab bench", stderr); err != nil {
		return err
	}
	o.Progress = stderr
	if err := o.Validate(); err != nil {
		return usageError{err}
	}
	return nil
}
