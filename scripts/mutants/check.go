package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The time limits: of a test, of an acceptance check, and of a build.
const (
	testLimit   = 4 * time.Minute
	acceptLimit = 20 * time.Minute
	buildLimit  = 10 * time.Minute
)

// check is what must notice a fault: tests of one package, or one acceptance check.
type check struct {
	pkg, tests string   // for tests, with a pattern of -run
	flags      []string // further ones, of the tests
	accept     string   // for an acceptance check, its arguments
}

func test(pkg string, names ...string) check {
	return check{pkg: pkg, tests: "^(" + strings.Join(names, "|") + ")$"}
}

func accept(args string) check { return check{accept: args} }

func (c check) String() string {
	if c.accept != "" {
		return "accept.sh " + c.accept
	}
	return c.pkg + " " + strings.Trim(c.tests, "^$()")
}

func (c check) where() string {
	if c.accept != "" {
		return c.String() + ":"
	}
	return strings.TrimSuffix(c.pkg, "/")
}

type verdict string

const (
	passed verdict = "passed"
	failed verdict = "failed" // it says what is wrong
	hung   verdict = "did not end"
	broken verdict = "could not run"
)

// result is what became of one run of a command.
type result struct {
	verdict verdict
	status  int
	stdout  []byte
	output  string   // of both
	failing []string // tests, or the first breach
	took    time.Duration
}

// tail is the end of the output.
func (r *result) tail() string {
	const most = 3000
	return r.output[max(0, len(r.output)-most):]
}

var (
	failing  = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	panicked = regexp.MustCompile(`(?m)^(panic|fatal error): `)
)

// run runs the check on the code with the overlay, or as it is. dir is where build was told
// to put the tests.
func (c check) run(ctx context.Context, overlay, dir string) result {
	if c.accept != "" {
		return c.runAccept(ctx, overlay)
	}
	args := append([]string{c.binary(dir), "-test.run=" + c.tests, "-test.timeout=0"}, c.flags...)
	r := command(ctx, testLimit, overlay, c.pkg, args...)
	for _, found := range failing.FindAllStringSubmatch(r.output, -1) {
		r.failing = append(r.failing, found[1])
	}
	switch {
	case r.verdict == passed && strings.Contains(r.output, "no tests to run"):
		r.verdict = broken
	case r.verdict == broken && (len(r.failing) > 0 || panicked.MatchString(r.output)):
		r.verdict = failed
	}
	return r
}

func (c check) runAccept(ctx context.Context, overlay string) result {
	args := append([]string{"scripts/accept.sh"}, strings.Fields(c.accept)...)
	r := command(ctx, acceptLimit, overlay, ".", args...)
	if overlay != "" {
		os.Remove("bin/accept") // it has the fault; the next run builds it anew
	}
	var line struct{ Breaches []string }
	// A check that cannot run says so by status 2 or without its line.
	if r.verdict == broken && r.status == 1 && json.Unmarshal(r.stdout, &line) == nil && len(line.Breaches) > 0 {
		r.verdict, r.failing = failed, []string{line.Breaches[0]}
	}
	return r
}

// build builds what the check runs: a fault that does not compile is none. The tests are
// not built twice in one folder.
func (c check) build(ctx context.Context, overlay, dir string) result {
	if c.accept != "" {
		binary := filepath.Join(dir, "transmsg")
		return command(ctx, buildLimit, overlay, ".", "go", "build", "-o", binary, "./cmd/transmsg")
	}
	if _, err := os.Stat(c.binary(dir)); err == nil {
		return result{verdict: passed}
	}
	return command(ctx, buildLimit, overlay, ".", "go", "test", "-c", "-ldflags=-w", "-o", c.binary(dir), c.pkg)
}

// binary is where the tests of the package are built to.
func (c check) binary(dir string) string {
	return filepath.Join(dir, strings.ReplaceAll(strings.Trim(c.pkg, "./"), "/", "-")+".test")
}

// command runs a command in dir within its time, in a process group of its own, which ends with it.
func command(ctx context.Context, limit time.Duration, overlay, dir string, args ...string) result {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // from the table
	cmd.Dir, cmd.Env = dir, os.Environ()
	if overlay != "" {
		cmd.Env = append(cmd.Env, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	var stdout bytes.Buffer
	var both sharedBuffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&stdout, &both), &both
	begin := time.Now()
	err := cmd.Run()
	r := result{verdict: passed, stdout: stdout.Bytes(), output: both.buf.String(), took: time.Since(begin)}
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		r.verdict = hung
	case errors.As(err, &exit):
		r.verdict, r.status = broken, exit.ExitCode()
		r.output += exit.String() + "\n" // a signal says nothing else
	default:
		r.verdict, r.output = broken, r.output+err.Error()
	}
	return r
}

// sharedBuffer is written to by the copies of stdout and stderr.
type sharedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *sharedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}
