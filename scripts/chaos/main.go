package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Exit statuses, the same as the transmsg binary's.
const (
	exitPass   = 0
	exitBreach = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	_ = mysql.SetLogger(&mysql.NopLogger{}) // it fails for nil alone; broken connections are what we make
	if len(os.Args) > 1 && os.Args[1] == childArg {
		os.Exit(childMain(ctx, os.Args[2:], os.Stderr))
	}
	os.Exit(chaos(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options are the parsed command line.
type options struct {
	seed     uint64
	seconds  int
	store    string
	mode     string // one of the modes
	rate     float64
	summary  string
	only     string
	planOnly bool
	keep     bool
	samples  string
	untimed  bool
	// consumers has processes of the product consume one of the queues.
	consumers bool
}

func (o options) length() time.Duration { return time.Duration(o.seconds) * time.Second }

// chaos does one run and prints its line; it returns the exit status of the process.
func chaos(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitPass
	}
	if err != nil {
		fmt.Fprintf(stderr, "chaos: %v\n", err)
		return exitUsage
	}
	plan := newPlan(o)
	if o.planOnly {
		for _, s := range plan {
			fmt.Fprintln(stdout, s)
		}
		return exitPass
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	sum := execute(ctx, o, plan, log)
	line, err := json.Marshal(sum)
	if err == nil {
		fmt.Fprintf(stdout, "%s\n", line)
		err = appendLine(o.summary, line)
	}
	if err != nil {
		fmt.Fprintf(stderr, "chaos: summary: %v\n", err)
		return exitBreach
	}
	if !sum.Pass {
		return exitBreach
	}
	return exitPass
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	asked := map[string]*bool{}
	fs := flag.NewFlagSet("chaos", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Uint64Var(&o.seed, "seed", 1, "chooses the plan: same seed, seconds and store, same plan")
	fs.IntVar(&o.seconds, "seconds", 60, "length of the plan, 20 to 86400; booting and draining come on top")
	fs.StringVar(&o.store, "store", "mysql", "mysql (MariaDB), postgres or sqlite")
	for mode, what := range modes() {
		asked[mode] = fs.Bool(mode, false, what)
	}
	fs.Float64Var(&o.rate, "rate", 400, "most messages published per second by all processes, 1 to 5000")
	fs.StringVar(&o.summary, "summary", "", "also append the last line to this `file`")
	fs.StringVar(&o.only, "only", "", "deal only these `kinds` of fault, separated by commas; none for no faults")
	fs.BoolVar(&o.planOnly, "plan", false, "print the plan and end")
	fs.BoolVar(&o.keep, "keep", false, "keep ledgers and logs, and say where they are")
	fs.StringVar(&o.samples, "samples", "", "sample each 5 s into `FILE`.csv and FILE.svg, and fail on growth")
	fs.BoolVar(&o.untimed, "untimed", false, "report recoveries and fail on none: for a machine that is busy otherwise")
	fs.BoolVar(&o.consumers, "consumers", false,
		"the quorum queue is consumed by processes of package consumer, with one effect each, and faults of their own")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	for mode, on := range asked {
		if *on && o.mode != "" {
			return o, fmt.Errorf("--%s and --%s exclude each other: one mode at a time", o.mode, mode)
		}
		if *on {
			o.mode = mode
		}
	}
	switch {
	case o.consumers && (o.mode != "" || o.store == storeSQLite):
		return o, errors.New("--consumers is for single servers, with --store mysql or postgres")
	case o.mode == modeGalera && o.store != storeMySQL, o.mode == modeFailover && o.store == storeSQLite:
		return o, fmt.Errorf("--%s has no store %q", o.mode, o.store)
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.seconds < 20 || o.seconds > 86400:
		return o, fmt.Errorf("--seconds %d must be 20 to 86400", o.seconds)
	case !slices.Contains([]string{storeMySQL, storePostgres, storeSQLite}, o.store):
		return o, fmt.Errorf("--store %q must be mysql, postgres or sqlite", o.store)
	case !(o.rate >= 1 && o.rate <= 5000):
		return o, fmt.Errorf("--rate %v must be 1 to 5000", o.rate)
	}
	return o, checkOnly(o)
}

// checkOnly refuses kinds that do not exist or do not apply to the store.
func checkOnly(o options) error {
	if o.only == "" || o.only == noFaults {
		return nil
	}
	all := kindsFor(o)
	for name := range strings.SplitSeq(o.only, ",") {
		if !slices.ContainsFunc(all, func(k kind) bool { return k.name == name }) {
			return fmt.Errorf("--only %q: no such kind of fault for %s", name, strings.TrimSpace(o.store+" "+o.mode))
		}
	}
	return nil
}

// appendLine adds one line to the file of a campaign.
func appendLine(path string, line []byte) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
