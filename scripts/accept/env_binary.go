package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/transmsg/transmsg/internal/proc"
)

// build makes the binary of this tree in the run's own folder.
func (w *world) build(ctx context.Context, _ worldOptions) error {
	w.binary = filepath.Join(w.Dir, "transmsg")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", w.binary, "./cmd/transmsg")
	cmd.Dir = w.Root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build transmsg: %w: %s", err, out)
	}
	return nil
}

// transmsg runs the binary to its end.
func (w *world) transmsg(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, w.binary, args...)
	cmd.Dir, cmd.Env = w.Dir, plainEnv()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("transmsg %s: %w: %s", args[0], err, strings.TrimSpace(string(out)))
	}
	return nil
}

// plainEnv is our environment without settings of transmsg: the binary gets
// those of the check alone.
func plainEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TRANSMSG_") })
}

// daemon is a running `transmsg compensator`.
type daemon struct{ *proc.Process }

// compensate starts `transmsg compensator` on the world. It ends with the world
// unless it is stopped earlier.
func (w *world) compensate(args ...string) (daemon, error) {
	all := append([]string{"compensator", "--store", w.dsn, "--amqp", w.url, "--http", ""}, args...)
	p, err := proc.Start(proc.Spec{
		Path: w.binary, Args: all, Dir: w.Dir, Env: plainEnv(), Output: filepath.Join(w.Dir, "compensator.log"),
	})
	if err != nil {
		return daemon{}, err
	}
	d := daemon{p}
	w.later(d.stop)
	return d, nil
}

// stop ends it as an orchestrator does. Stopping it twice is nil.
func (d daemon) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return d.Stop(ctx)
}
