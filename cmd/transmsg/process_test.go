package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	neturl "net/url"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/faultproxy"
	"github.com/transmsg/transmsg/internal/logtest"
)

// process is one run of the binary.
type process struct {
	cmd    *exec.Cmd
	lines  chan string // of stdout
	stderr logtest.Buffer
}

// start runs transmsg as a process of its own. It is killed when the test ends first.
func start(t *testing.T, stdin io.Reader, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command("transmsg", args...), lines: make(chan string, 100_000)}
	p.cmd.Env = append(p.cmd.Environ(), "GORACE=atexit_sleep_ms=10")
	p.cmd.Stdin, p.cmd.Stderr = stdin, &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has ended, unless the test failed
		for range p.lines {
		}
	})
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	return p
}

// stop sends SIGTERM and returns the lines of stdout that follow and the exit code.
func (p *process) stop(t *testing.T) (lines []string, code int) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(patience)
	for {
		select {
		case line, ok := <-p.lines:
			if ok {
				lines = append(lines, line)
				continue
			}
		case <-deadline:
			t.Fatalf("still running %v after SIGTERM:\n%s", patience, p.stderr.String())
		}
		break
	}
	_ = p.cmd.Wait() // the code says it
	return lines, p.cmd.ProcessState.ExitCode()
}

// waitFor polls a state that is named in the failure.
func waitFor(t *testing.T, what string, reached func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !reached() {
		if time.Now().After(deadline) {
			t.Fatalf("after %v: not %s", patience, what)
		}
		<-tick.C
	}
}

// listed counts the rows of a store.
func listed(t *testing.T, store string) int {
	t.Helper()
	code, out, errs := runIn(t, "stats", "--json", "--store", store)
	if code != 0 {
		t.Fatalf("stats: exit %d: %s", code, errs)
	}
	n := 0
	for line := range strings.Lines(out) {
		var st jsonStats
		if err := json.Unmarshal([]byte(line), &st); err != nil {
			t.Fatal(err)
		}
		n += int(st.Ready + st.Dead)
	}
	return n
}

// queueOf is a fresh virtual host with one queue.
func queueOf(t *testing.T) (url string, c *amqptest.Client) {
	t.Helper()
	url = amqptest.VHost(t)
	c = amqptest.Connect(t, url)
	if err := c.Queue(amqptest.QueueSpec{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	return url, c
}

func depth(t *testing.T, c *amqptest.Client) int {
	t.Helper()
	n, err := c.Depth("q")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// ids takes everything out of the queue.
func ids(t *testing.T, c *amqptest.Client) map[string]int {
	t.Helper()
	ds, err := c.Drain("q")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, d := range ds {
		got[d.MessageId]++
	}
	return got
}

func migrated(t *testing.T) (store string) {
	t.Helper()
	store = "sqlite:" + t.TempDir() + "/test.db"
	if code, _, errs := runIn(t, "migrate", "up", "--store", store); code != 0 {
		t.Fatalf("migrate: exit %d: %s", code, errs)
	}
	return store
}

// SIGTERM in the middle of a stream: every message that was taken is reported, is stored
// or delivered, and the exit code is 0.
func TestC24_PublishDrainsOnSIGTERM(t *testing.T) {
	t.Parallel()
	url, c := queueOf(t)
	store := migrated(t)
	in, feed := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for i := 0; ctx.Err() == nil; i++ { // without an end: the signal comes in the middle
			if _, err := fmt.Fprintf(feed, "{\"routing_key\":\"q\",\"body\":\"%d\"}\n", i); err != nil {
				return
			}
		}
	}()
	defer in.Close()
	p := start(t, in, "publish", "--jsonl", "-", "--json", "--amqp", url, "--store", store)
	lines := []string{}
	for line := range p.lines {
		if lines = append(lines, line); len(lines) == 1000 {
			break
		}
	}
	in.Close()
	more, code := p.stop(t)
	lines = append(lines, more...)
	if code != 0 {
		t.Fatalf("exit code %d after SIGTERM:\n%s", code, p.stderr.String())
	}
	reported := map[string]bool{}
	for _, line := range lines {
		var r jsonResult
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.ID == "" {
			t.Fatalf("line %q: %v", line, err)
		}
		reported[r.ID] = true
	}
	if n := listed(t, store); n != 0 {
		t.Errorf("%d rows left after a drain with the broker up", n)
	}
	waitFor(t, "as many messages in the queue as were reported", func() bool { return depth(t, c) == len(reported) })
	for id := range ids(t, c) {
		if !reported[id] {
			t.Errorf("%s was sent and not reported", id)
		}
	}
}

// SIGTERM in the middle of a drain of 5,000 rows: exit code 0, what is left stays due, and
// the next compensator delivers it. None is lost.
func TestC24_CompensatorDrainsOnSIGTERM(t *testing.T) {
	t.Parallel()
	url, c := queueOf(t)
	store := migrated(t)
	const n = 5000
	var in strings.Builder
	for i := range n {
		fmt.Fprintf(&in, "{\"routing_key\":\"q\",\"body\":\"%d\"}\n", i)
	}
	var out, errs logtest.Buffer
	code := run(t.Context(), []string{
		"publish", "--jsonl", "-", "--amqp", "amqp://127.0.0.1:1/", "--connect-timeout", "0s", "--store", store,
	}, strings.NewReader(in.String()), &out, &errs)
	if rows := listed(t, store); code != 0 || rows != n {
		t.Fatalf("exit %d, %d rows, want 0 and %d: %s", code, rows, n, errs.String())
	}
	args := []string{
		"compensator", "--store", store, "--amqp", url, "--http", "", "--rate", "2000", "--interval", "50ms",
	}
	first := start(t, nil, args...)
	waitFor(t, "sending", func() bool { return depth(t, c) > 0 })
	if _, code := first.stop(t); code != 0 {
		t.Fatalf("exit code %d after SIGTERM:\n%s", code, first.stderr.String())
	}
	left := listed(t, store)
	if sent := depth(t, c); left == 0 || left+sent != n {
		t.Errorf("%d rows left and %d sent, want %d in all and some left", left, sent, n)
	}
	second := start(t, nil, args...)
	waitFor(t, "all delivered", func() bool { return depth(t, c) >= n && listed(t, store) == 0 })
	if _, code := second.stop(t); code != 0 {
		t.Fatalf("exit code %d after SIGTERM:\n%s", code, second.stderr.String())
	}
	if got := len(ids(t, c)); got != n {
		t.Errorf("%d distinct messages, want %d", got, n)
	}
}

// A second SIGTERM ends the process at once, however long the first one's drain may take:
// the broker's acks never arrive here and --drain-timeout is ten minutes.
func TestC24_SecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	url, c := queueOf(t)
	store := migrated(t)
	if code, _, errs := runIn(t, "publish", "--routing-key", "q", "--store", store, "--amqp", "amqp://127.0.0.1:1/",
		"--connect-timeout", "0s"); code != 0 {
		t.Fatalf("publish: exit %d: %s", code, errs)
	}
	target, err := neturl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := faultproxy.New(target.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	proxy.SwallowAcks(true)
	target.Host = proxy.Addr()
	p := start(t, nil, "compensator", "--store", store, "--amqp", target.String(), "--http", "", "--interval", "50ms",
		"--drain-timeout", "10m", "--confirm-timeout", "10m", "--lease", "20m")
	waitFor(t, "a message sent and never confirmed", func() bool { return depth(t, c) == 1 })
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	deadline := time.After(patience)
	again := time.NewTicker(50 * time.Millisecond) // a signal may come before the first one is taken in
	defer again.Stop()
	for signals := 0; ; {
		select {
		case err = <-ended:
			status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
			if !ok || !status.Signaled() || status.Signal() != syscall.SIGTERM || signals < 2 {
				t.Errorf("after %d signals: %v, want the end by the second SIGTERM:\n%s",
					signals, err, p.stderr.String())
			}
			return
		case <-again.C:
			if p.cmd.Process.Signal(syscall.SIGTERM) == nil {
				signals++
			}
		case <-deadline:
			t.Fatalf("still running %v after %d signals", patience, signals)
		}
	}
}
