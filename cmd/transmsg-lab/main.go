// Command transmsg-lab shows and measures transmsg on servers for tests: `transmsg-lab demo` plays the whole life
// of messages, `transmsg-lab bench` compares with what the servers can do at most. It makes schemas, exchanges and
// queues of its own, which the daemon never does.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes, as those of transmsg.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// lab is one run of the binary.
type lab struct {
	stdout, stderr io.Writer
	jsonOut        bool // --json
	started        bool // a verb's own code has begun: errors are no longer usage errors
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	l := &lab{stdout: stdout, stderr: stderr}
	root := &cobra.Command{
		Use: "transmsg-lab", Short: "Show and measure transmsg on servers for tests",
		SilenceErrors: true, SilenceUsage: true,
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.PersistentFlags().BoolVar(&l.jsonOut, "json", false, "print one JSON object on stdout (docs/cli.md)")
	root.AddCommand(l.benchCommand(), l.demoCommand())
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	fmt.Fprintf(stderr, "%s: %v\n", cmd.CommandPath(), err)
	var usage usageError
	if !l.started || errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// verb wraps the code of one verb.
func (l *lab) verb(f func(ctx context.Context) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		l.started = true
		return f(cmd.Context())
	}
}

// usageError is a mistake in how the verb was called.
type usageError struct{ error }

// Unwrap returns the cause.
func (e usageError) Unwrap() error { return e.error }

func (l *lab) printJSON(v any) error {
	enc := json.NewEncoder(l.stdout)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}
