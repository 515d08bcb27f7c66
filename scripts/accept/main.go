package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sort"
	"strings"
	"syscall"
)

// Exit statuses, the same as the transmsg binary's.
const (
	exitPass   = 0
	exitBreach = 1
	exitUsage  = 2
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		os.Exit(childMain(os.Args[2:], os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := accept(ctx, os.Args[1:], registry(), os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// accept parses args, runs one check and prints its line; it returns the exit
// status of the process.
func accept(ctx context.Context, args []string, checks map[string]check, stdout, stderr io.Writer) int {
	opts, err := parse(args, checks, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitPass
	}
	if err != nil {
		fmt.Fprintf(stderr, "accept: %v\n", err)
		return exitUsage
	}
	res := runCheck(ctx, opts, stderr)
	if err := res.print(stdout); err != nil {
		fmt.Fprintf(stderr, "accept: print the result: %v\n", err)
		return exitBreach
	}
	if !res.Pass {
		return exitBreach
	}
	return exitPass
}

// options are the parsed command line.
type options struct {
	check  check
	seed   uint64
	stores []string
	keep   bool
	root   string
}

// parse accepts flags before and after the name.
func parse(args []string, checks map[string]check, stderr io.Writer) (options, error) {
	var opts options
	var store string
	fs := flag.NewFlagSet("accept", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Uint64Var(&opts.seed, "seed", 1, "repeats a run: every random choice comes from it")
	fs.StringVar(&store, "store", "", "mysql, postgres, sqlite or all; "+
		"without it mysql and then postgres, for roundtrip all")
	fs.BoolVar(&opts.keep, "keep", false, "leave rows, queues and folders for inspection")
	fs.StringVar(&opts.root, "root", ".", "root of the repository")
	var names []string
	for rest := args; ; {
		if err := fs.Parse(rest); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				usage(fs, checks, stderr)
			}
			return options{}, err
		}
		if fs.NArg() == 0 {
			break
		}
		names = append(names, fs.Arg(0))
		rest = fs.Args()[1:]
	}
	if len(names) != 1 {
		usage(fs, checks, stderr)
		return options{}, fmt.Errorf("want the name of one check, got %d names", len(names))
	}
	c, ok := checks[names[0]]
	if !ok {
		all := strings.Join(sorted(checks), ", ")
		return options{}, fmt.Errorf("unknown check %q; the checks are %s", names[0], all)
	}
	opts.check = c
	stores, err := storesOf(store)
	if err != nil {
		return options{}, err
	}
	opts.stores = stores
	switch {
	case c.once:
		opts.stores = []string{""}
	case store == "" && c.stores != "":
		opts.stores, err = storesOf(c.stores)
	}
	return opts, err
}

func storesOf(flagValue string) ([]string, error) {
	switch flagValue {
	case "":
		return []string{"mysql", "postgres"}, nil
	case "all":
		return []string{"mysql", "postgres", "sqlite"}, nil
	case "mysql", "postgres", "sqlite":
		return []string{flagValue}, nil
	default:
		return nil, fmt.Errorf("--store %q: want mysql, postgres, sqlite or all", flagValue)
	}
}

func usage(fs *flag.FlagSet, checks map[string]check, stderr io.Writer) {
	fmt.Fprint(stderr, "usage: scripts/accept.sh NAME [flags]\n\nchecks:\n")
	for _, name := range sorted(checks) {
		fmt.Fprintf(stderr, "  %-14s %s\n", name, checks[name].about)
	}
	fmt.Fprint(stderr, "\nflags:\n")
	fs.SetOutput(stderr)
	fs.PrintDefaults()
	fs.SetOutput(io.Discard)
}

func sorted(checks map[string]check) []string {
	names := make([]string, 0, len(checks))
	for name := range checks {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
