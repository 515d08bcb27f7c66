package proc_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/transmsg/transmsg/internal/proc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, script string) *proc.Process {
	t.Helper()
	p, err := proc.Start(proc.Spec{
		Path: "/bin/sh", Args: []string{"-c", script}, Output: filepath.Join(t.TempDir(), "out"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func TestStopEndsAChildThatListens(t *testing.T) {
	t.Parallel()
	p := start(t, "exec sleep 600")
	if err := p.Pause(); err != nil { // Stop ends a paused one too.
		t.Fatal(err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.Running() || !gone(p.Pid()) {
		t.Error("the child is still there after Stop")
	}
	if err := errors.Join(p.Stop(t.Context()), p.Kill()); err != nil {
		t.Errorf("ending an ended child: %v", err)
	}
}

func TestStopKillsAChildThatIgnoresIt(t *testing.T) {
	t.Parallel()
	ready := filepath.Join(t.TempDir(), "ready")
	p := start(t, "trap '' TERM; touch "+ready+"; while :; do sleep 1; done")
	err := p.Await(t.Context(), func(context.Context) error { _, err := os.Stat(ready); return err })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Stop = %v, want deadline exceeded", err)
	}
	if p.Running() || !gone(p.Pid()) {
		t.Error("the child survived a Stop that ran out of time")
	}
}

func TestAwaitReportsAnEarlyEndWithItsOutput(t *testing.T) {
	t.Parallel()
	p := start(t, "echo no such disk; exit 3")
	err := p.Await(t.Context(), func(context.Context) error { return errors.New("not yet") })
	if err == nil || !strings.Contains(err.Error(), "no such disk") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("Await = %v, want the output and the exit status", err)
	}
}

func TestFreePortsAreDistinctAndFree(t *testing.T) {
	t.Parallel()
	ports, err := proc.FreePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range ports {
		if seen[port] {
			t.Errorf("port %d twice", port)
		}
		seen[port] = true
		l, err := net.Listen("tcp", proc.Loopback(port))
		if err != nil {
			t.Errorf("port %d is not free: %v", port, err)
			continue
		}
		l.Close()
	}
}
