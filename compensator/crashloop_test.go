package compensator_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/internal/logtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// The environment of a child process: where its store and its broker are.
const (
	crashStore  = "TRANSMSG_TEST_CRASH_STORE"
	crashBroker = "TRANSMSG_TEST_CRASH_BROKER"
)

// deadly ends its process at the send of one row, as one that is too large for its memory does.
type deadly struct{ *confirms.Sender }

func (d deadly) Send(s confirms.Send) {
	if s.Message.RoutingKey == "killer" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	d.Sender.Send(s)
}

// TestCrashLoopChild is no test: it is the process that TestE7 starts.
func TestCrashLoopChild(t *testing.T) {
	dsn, broker := os.Getenv(crashStore), os.Getenv(crashBroker)
	if dsn == "" {
		t.Skip("started by TestE7_ARowThatKillsItsProcessGoesDead")
	}
	store, err := anystore.Open(t.Context(), dsn, gormstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := confirms.ParseURL(broker)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConfirmTimeout = time.Second
	sender, err := confirms.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c, err := compensator.New(compensator.Config{
		Store: store, Sender: deadly{sender}, Interval: 50 * time.Millisecond, Lease: 5 * time.Second,
		AlertWindow: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(c.Run(context.Background())) // until it is killed
}

// crashing starts a compensator in a process of its own. Its output is to be read after it ended.
func (r *rig) crashing() (*exec.Cmd, *logtest.Buffer) {
	r.t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashLoopChild$") //nolint:gosec // this program
	cmd.Env = append(os.Environ(), crashStore+"="+r.dsn, crashBroker+"="+r.url)
	out := &logtest.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	r.must(cmd.Start())
	r.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, out
}

// killed waits until the process has ended by the signal, or the row is DEAD, and reports which.
func (r *rig) killed(id string) bool {
	r.t.Helper()
	cmd, out := r.crashing()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its state tells
	}()
	over := false
	eventually(r.t, "the process ends, or the row", func() bool {
		select {
		case <-ended:
			over = true
		default:
		}
		row, _ := r.show(id)
		return over || row.Status == model.Dead
	})
	if !over {
		r.must(cmd.Process.Kill())
		<-ended
		return false
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || status.Signal() != syscall.SIGKILL {
		r.t.Fatalf("the process ended with %v:\n%s", cmd.ProcessState, strings.Join(out.Lines(""), ""))
	}
	return true
}

// A row that kills each process that sends it is told of early, and goes DEAD unsent after a
// bounded number of claims and time; those that were claimed beside it are delivered (E7).
func TestE7_ARowThatKillsItsProcessGoesDead(t *testing.T) {
	t.Parallel()
	r := newRig(t, "mysql", dbtest.MySQL(t), amqptest.VHost(t))
	killer := r.put(1, "orders", "ex", "killer")[0]
	good := r.put(20, "orders", "ex", "k")
	// What a lease would take is skipped: the times of the rows are moved instead.
	due := func() {
		r.exec("UPDATE trans_message SET next_attempt_at = IF(routing_key = 'killer', 0, 1)")
		r.exec("UPDATE trans_message SET lone_since = lone_since - 150000 WHERE lone_since > 0")
	}
	deaths := 0
	for due(); r.killed(killer); due() {
		if deaths++; deaths == 4 { // two claims among others, two alone
			r.told(killer)
			r.deliveredOnce("q1", good)
		}
		if deaths > 20 {
			t.Fatal("20 processes ended, and the row is still sent")
		}
	}
	row, events := r.show(killer)
	if row.Status != model.Dead || row.LastCode != model.CodeCrashLoop || len(events) != 1 {
		t.Errorf("the row: %+v, %d events", row, len(events))
	}
	if deaths != 7 {
		t.Errorf("%d processes ended, want 2 with the row among others and 5 with it alone", deaths)
	}
}

// told waits until a process that has not met the row again has told of it, and has dealt with the others.
func (r *rig) told(id string) {
	r.t.Helper()
	r.exec("UPDATE trans_message SET next_attempt_at = next_attempt_at + 3600000 WHERE routing_key = 'killer'")
	cmd, out := r.crashing()
	eventually(r.t, "a person is told", func() bool {
		return len(out.Lines("alert.kind=crash-loop")) > 0
	})
	r.untilRows(1, 0)
	r.must(cmd.Process.Kill())
	_ = cmd.Wait()
	line := out.Lines("alert.kind=crash-loop")[0]
	if !strings.Contains(line, id) || !strings.Contains(line, "claimed alone 2 times") {
		r.t.Errorf("told: %s", line)
	}
}
