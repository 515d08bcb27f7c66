package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// demoCheck runs the README's first command: its own exit status is the check,
// since it ends with another one unless nothing was lost.
func demoCheck() check {
	return check{
		name:  "demo",
		about: "scripts/demo.sh ends with lost 0",
		once:  true,
		run: func(ctx context.Context, env *env) (figures, error) {
			status, seconds, err := runScript(ctx, env, "demo.sh")
			if err != nil {
				return nil, err
			}
			env.Breaches.Equal("exit status of scripts/demo.sh", status, 0)
			return figures{"exit_status": status, "seconds": seconds}, nil
		},
	}
}

// testTwiceCheck runs the README's second command two times: the second finds
// what the first left over.
func testTwiceCheck() check {
	return check{
		name:  "test-twice",
		about: "scripts/test.sh passes twice in a row",
		once:  true,
		run: func(ctx context.Context, env *env) (figures, error) {
			figs := figures{}
			for _, turn := range []string{"first", "second"} {
				status, seconds, err := runScript(ctx, env, "test.sh")
				if err != nil {
					return figs, err
				}
				env.Breaches.Equal("exit status of the "+turn+" scripts/test.sh", status, 0)
				figs[turn] = figures{"exit_status": status, "seconds": seconds}
			}
			return figs, nil
		},
	}
}

// runScript runs one of scripts/ with its output on standard error and returns
// its exit status. When ctx ends the script is told to stop, and killed 30 s
// later. The error is for a script that could not be run to its end.
func runScript(ctx context.Context, env *env, name string) (status int, seconds float64, err error) {
	begin := time.Now()
	cmd := exec.CommandContext(ctx, filepath.Join(env.Root, "scripts", name))
	cmd.Dir = env.Root
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	err = cmd.Run()
	seconds = time.Since(begin).Seconds()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, seconds, fmt.Errorf("run scripts/%s: %w", name, ctx.Err())
	case err == nil:
		return 0, seconds, nil
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode(), seconds, nil
	default:
		return 0, seconds, fmt.Errorf("run scripts/%s: %w", name, err)
	}
}
