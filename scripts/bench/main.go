package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/bench"
)

// options are the command line.
type options struct {
	cfg         bench.Config
	callers     int
	messages    int
	repetitions int
	jsonOut     bool
	plot        string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	amqp := fs.String("amqp", "amqp://guest:guest@127.0.0.1:5672/", "broker `URL`")
	fs.StringVar(&o.cfg.Store, "store", "mysql", "mysql or postgres (on this machine), or a `DSN`")
	fs.StringVar(&o.cfg.Queue, "queue", "quorum", "type of the queue, quorum or classic")
	fs.IntVar(&o.cfg.Body, "body", bench.DefaultBody, "bytes of a message's body")
	fs.IntVar(&o.callers, "callers", 256, "callers of publish")
	fs.IntVar(&o.messages, "messages", 10_000, "messages of one run, at least 100")
	fs.IntVar(&o.repetitions, "repetitions", 5, "repetitions of each figure")
	fs.BoolVar(&o.jsonOut, "json", false, "print one JSON object")
	fs.StringVar(&o.plot, "plot", "", "write a chart to this SVG `file`")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 || o.messages < 100 || o.callers < 1 || o.repetitions < 1 {
		return o, errors.New("takes only flags; messages must be at least 100, callers and repetitions at least 1")
	}
	var err error
	if o.cfg.Broker, err = confirms.ParseURL(*amqp); err != nil {
		return o, err
	}
	o.cfg.Messages, o.cfg.Repetitions = o.messages, o.repetitions
	return o, o.cfg.Validate()
}

// Report is the result; rates are medians in messages per second.
type Report struct {
	Store       string          `json:"store"`
	Queue       string          `json:"queue"`
	Body        int             `json:"body"`
	Messages    int             `json:"messages"`
	Callers     int             `json:"callers"`
	Repetitions int             `json:"repetitions"`
	Settings    []bench.Setting `json:"settings"`
	Lost        int             `json:"lost"`
	Repeats     int             `json:"repeats"`
	Contestants []Result        `json:"contestants"`
}

// Result is one contestant's.
type Result struct {
	Name    string  `json:"name"`
	Publish float64 `json:"publish"`
	Drain   float64 `json:"drain"`
	// OursOverPublish and OursOverDrain are medians of the ratio of transmsg's rate to this
	// one's, taken in the same repetition.
	OursOverPublish float64 `json:"transmsg_over_publish"`
	OursOverDrain   float64 `json:"transmsg_over_drain"`

	ours bool
}

func run(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	w, err := bench.Open(ctx, o.cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	list, closeAll, err := contestants(ctx, w)
	if err != nil {
		return errors.Join(err, closeAll())
	}
	samples, err := measure(ctx, o, list, stderr)
	if err := errors.Join(err, closeAll()); err != nil {
		return err
	}
	rep := report(o, w, list, samples)
	if o.plot != "" {
		if err := os.WriteFile(o.plot, rep.chart().SVG(), 0o644); err != nil {
			return fmt.Errorf("plot: %w", err)
		}
	}
	if o.jsonOut {
		return json.NewEncoder(stdout).Encode(rep)
	}
	return rep.table(stdout)
}

// sample is one contestant's rates by repetition.
type sample struct{ publish, drain []float64 }

// measure takes all contestants in turn, repetition by repetition.
func measure(ctx context.Context, o options, list []contestant, stderr io.Writer) ([]sample, error) {
	samples := make([]sample, len(list))
	for _, c := range list { // warm up: pages, plans, connections
		if _, _, err := rates(ctx, c, 4, 100); err != nil {
			return nil, err
		}
	}
	for r := range o.repetitions {
		for i, c := range list {
			p, d, err := rates(ctx, c, o.callers, o.messages)
			if err != nil {
				return nil, err
			}
			samples[i].publish = append(samples[i].publish, p)
			samples[i].drain = append(samples[i].drain, d)
			fmt.Fprintf(stderr, "repetition %d of %d: %s: publish %.0f/s, drain %.0f/s\n",
				r+1, o.repetitions, c.name(), p, d)
		}
	}
	return samples, nil
}

func report(o options, w *bench.World, list []contestant, samples []sample) Report {
	rep := Report{
		Store: w.Server(), Queue: o.cfg.Queue, Body: o.cfg.Body, Messages: o.messages, Callers: o.callers,
		Repetitions: o.repetitions, Settings: w.Settings, Lost: w.Tally.Lost, Repeats: w.Tally.Repeats,
	}
	for i, c := range list {
		s := samples[i]
		rep.Contestants = append(rep.Contestants, Result{
			Name: c.name(), ours: i == 0, Publish: bench.Median(s.publish), Drain: bench.Median(s.drain),
			OursOverPublish: bench.Median(ratios(samples[0].publish, s.publish)),
			OursOverDrain:   bench.Median(ratios(samples[0].drain, s.drain)),
		})
	}
	return rep
}

func ratios(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] / b[i]
	}
	return out
}

func (rep Report) table(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s, %s queue, bodies of %d bytes, %d messages a run, %d callers, medians of %d\n",
		rep.Store, rep.Queue, rep.Body, rep.Messages, rep.Callers, rep.Repetitions)
	for _, s := range rep.Settings {
		fmt.Fprintf(w, "  %s\t%s\n", s.Name, s.Value)
	}
	fmt.Fprintln(w, "\nCONTESTANT\tPUBLISH/S\tDRAIN/S\tTRANSMSG OVER IT: PUBLISH\tDRAIN")
	for _, c := range rep.Contestants {
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.1f\t%.1f\n", c.Name, c.Publish, c.Drain, c.OursOverPublish, c.OursOverDrain)
	}
	fmt.Fprintf(w, "\nEvery run was checked: lost %d, repeats %d.\n", rep.Lost, rep.Repeats)
	return w.Flush()
}

func (rep Report) chart() bench.Chart {
	c := bench.Chart{
		Title: "Outboxes on one machine: messages stored, confirmed and deleted per second",
		Subtitle: fmt.Sprintf("%s, %s queue, %d bytes, %d callers, medians of %d",
			rep.Store, rep.Queue, rep.Body, rep.Callers, rep.Repetitions),
		Unit: "messages per second",
	}
	for _, what := range []string{"publish", "drain"} {
		for _, r := range rep.Contestants {
			value, over := r.Publish, r.OursOverPublish
			if what == "drain" {
				value, over = r.Drain, r.OursOverDrain
			}
			note := fmt.Sprintf("(transmsg is %.1f x)", over)
			if r.ours {
				note = ""
			}
			c.Bars = append(c.Bars, bench.Bar{
				Label: strings.Join([]string{what, r.Name}, ": "), Value: value, Note: note, Ours: r.ours,
			})
		}
	}
	return c
}
