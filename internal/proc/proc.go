package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Spec says how to start a child process.
type Spec struct {
	// Path is the executable, absolute or found in PATH; inside Root where there is one.
	Path string
	Args []string
	// Env is the whole environment; nil inherits this process's.
	Env []string
	// Dir is the working directory; "" inherits.
	Dir string
	// Output is the file that standard output and error are appended to.
	Output string
	// StopSignal is what Stop sends; 0 means SIGTERM.
	StopSignal syscall.Signal
	// Credential, when not nil, is the user to run as.
	Credential *syscall.Credential
	// Root is where the child has its root.
	Root Root
}

// Process is a running or ended child. Its methods are safe for concurrent use.
type Process struct {
	name   string
	output string
	stop   syscall.Signal
	cmd    *exec.Cmd
	done   chan struct{}
	mu     sync.Mutex
	err    error
}

// Start starts the child and one goroutine that reaps it; the goroutine ends
// with the child, so whoever calls Start calls Stop or Kill later.
func Start(spec Spec) (*Process, error) {
	name := filepath.Base(spec.Path)
	out, err := os.OpenFile(spec.Output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer out.Close() // The child holds its own descriptor.
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env, cmd.Dir = spec.Env, spec.Dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = sysProcAttr(spec.Credential)
	cmd.SysProcAttr.Chroot = string(spec.Root)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &Process{name: name, output: spec.Output, stop: spec.StopSignal, cmd: cmd, done: make(chan struct{})}
	if p.stop == 0 {
		p.stop = syscall.SIGTERM
	}
	go func() {
		err := cmd.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(p.done)
	}()
	return p, nil
}

// Pid returns the process id of the child, also after it has ended.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed once the child has ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running says whether the child has not been reaped yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// ExitCode returns the exit status of an ended child; -1 while it runs, and where a
// signal ended it.
func (p *Process) ExitCode() int {
	if p.Running() {
		return -1
	}
	return p.cmd.ProcessState.ExitCode()
}

// Stop sends the stop signal and waits until the child has ended. When ctx ends first
// the child is killed, and the error says so. Stopping an ended child is nil.
func (p *Process) Stop(ctx context.Context) error {
	// A paused child would not get the signal.
	if err := errors.Join(p.signal(p.stop), p.Resume()); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("stop %s: %w", p.name, ctx.Err()), p.Kill())
	}
}

// Kill sends SIGKILL and waits until the child was reaped. Killing an ended
// child is nil.
func (p *Process) Kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return nil
}

// Pause sends SIGSTOP: the child keeps its sockets and does nothing.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume sends SIGCONT after a Pause.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(sig syscall.Signal) error {
	err := p.cmd.Process.Signal(sig)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%s: send %s: %w", p.name, sig, err)
	}
	return nil
}

// Await calls ready every 25 ms until it returns nil. It ends early, with the
// tail of the child's output, when the child ends or ctx does.
func (p *Process) Await(ctx context.Context, ready func(context.Context) error) error {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			p.mu.Lock()
			defer p.mu.Unlock()
			return fmt.Errorf("%s ended before it was ready: %w; output: %s", p.name, exitError(p.err), p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s not ready: %w (%w); output: %s", p.name, ctx.Err(), err, p.tail())
		case <-tick.C:
		}
	}
}

var errExitZero = errors.New("exit status 0")

func exitError(err error) error {
	if err == nil {
		return errExitZero
	}
	return err
}

// tail returns the last 8 KiB of the child's output.
func (p *Process) tail() string {
	b, err := os.ReadFile(p.output)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-8192):])
}
