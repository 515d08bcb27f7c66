// Command mutants puts faults into the code on purpose and says which of them the checks
// and tests notice. See scripts/mutants.sh.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// Exit statuses, the same as the acceptance checks'.
const (
	exitPass    = 0
	exitNoticed = 1 // something was not: a fault survived, is stale, or could not be tried
	exitUsage   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := mutate(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// mutate parses args, tries the mutants that they select and returns the exit status.
func mutate(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	fs := flag.NewFlagSet("mutants", flag.ContinueOnError)
	fs.SetOutput(stderr)
	list := fs.Bool("list", false, "print the names and checks, and try nothing")
	noBaseline := fs.Bool("no-baseline", false, "do not run the checks on the unchanged code first")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		return exitPass
	} else if err != nil {
		return exitUsage
	}
	chosen, err := choose(all(), fs.Args())
	if err != nil {
		fmt.Fprintf(stderr, "mutants: %v\n", err)
		return exitUsage
	}
	if *list {
		for _, m := range chosen {
			fmt.Fprintf(stdout, "%-42s %s\n", m.name, m.check)
		}
		return exitPass
	}
	status := exitPass
	if !*noBaseline {
		status = baseline(ctx, chosen, stdout, stderr)
	}
	if status == exitPass {
		status = each(ctx, chosen, stdout, stderr)
	}
	return status
}

// choose returns the mutants whose names begin with one of the prefixes, or all.
func choose(list []mutant, prefixes []string) ([]mutant, error) {
	if len(prefixes) == 0 {
		return list, nil
	}
	for _, p := range prefixes {
		if !slices.ContainsFunc(list, func(m mutant) bool { return strings.HasPrefix(m.name, p) }) {
			return nil, fmt.Errorf("no fault is named %q; --list prints the names", p)
		}
	}
	return slices.DeleteFunc(list, func(m mutant) bool {
		return !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(m.name, p) })
	}), nil
}

// baseline runs every check once on the code as it is: one that fails there says nothing.
func baseline(ctx context.Context, list []mutant, stdout, stderr io.Writer) int {
	dir, err := os.MkdirTemp("", "transmsg-mutant-")
	if err != nil {
		fmt.Fprintf(stderr, "mutants: %v\n", err)
		return exitNoticed
	}
	defer os.RemoveAll(dir)
	seen := map[string]bool{}
	status := exitPass
	for _, m := range list {
		if seen[m.check.String()] {
			continue
		}
		seen[m.check.String()] = true
		r := m.check.build(ctx, "", dir)
		if r.verdict == passed {
			r = m.check.run(ctx, "", dir)
		}
		if r.verdict != passed {
			fmt.Fprintf(stdout, "%-42s %s  %s on the unchanged code  %.0f s\n",
				"baseline", m.check, r.verdict, r.took.Seconds())
			fmt.Fprintln(stderr, r.tail())
			status = exitNoticed
		}
	}
	return status
}

// each tries the mutants one after the other.
func each(ctx context.Context, list []mutant, stdout, stderr io.Writer) int {
	status, counts := exitPass, map[string]int{}
	for i := range list {
		if ctx.Err() != nil {
			fmt.Fprintf(stderr, "mutants: interrupted, %d of %d tried\n", i, len(list))
			return exitNoticed
		}
		m := &list[i]
		word, r := m.try(ctx)
		if ctx.Err() != nil {
			continue
		}
		counts[word]++
		fmt.Fprintf(stdout, "%-42s %-60s %-8s %4.0f s\n", m.name, m.noticedBy(r), word, r.took.Seconds())
		if word != "killed" {
			status = exitNoticed
		}
		if word == "ERROR" || word == "SURVIVED" {
			fmt.Fprintln(stderr, r.tail())
		}
	}
	fmt.Fprintf(stdout, "%d faults: %d killed, %d survived, %d stale, %d errors\n",
		len(list), counts["killed"], counts["SURVIVED"], counts["stale"], counts["ERROR"])
	return status
}
