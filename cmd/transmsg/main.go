// Command transmsg is the daemon, the command line and the operator's tool of transmsg:
// it publishes messages from a shell, runs the compensator beside services, migrates the
// database, and shows what is stored. `transmsg help` lists the verbs; docs/cli.md has the
// output formats and exit codes.
//
// It is wiring: flags become the Config structs of publisher, confirms, compensator and
// gormstore, and their results become lines. What a message goes through is decided there.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	drain := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup has it ignored, and so it stays
		drain = append(drain, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), drain...)
	// The first signal asks for a drain; from then on the default action is back, so that
	// a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
