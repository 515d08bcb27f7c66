package dbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/transmsg/transmsg/internal/proc"
)

const (
	bootTimeout = time.Minute
	stopTimeout = time.Minute
	bootTries   = 3
)

// Instance is the process side of a private server, on a port and folder of its
// own under 127.0.0.1. Safe for concurrent use.
type Instance struct {
	dir  string // All its files; removed by Close.
	root proc.Root
	port int
	// spec and ready depend on dir and port.
	spec  func() proc.Spec
	ready func(context.Context) error

	mu    sync.Mutex // Held while the server starts or ends.
	child *proc.Process
}

// boot starts the instance for the first time, on another port when the one
// that was free has been taken meanwhile.
func (i *Instance) boot(ctx context.Context) error {
	for try := 1; ; try++ {
		ports, err := proc.FreePorts(1)
		if err != nil {
			return err
		}
		i.port = ports[0]
		if err = i.Start(ctx); err == nil {
			return nil
		}
		err = errors.Join(err, i.Kill())
		if try == bootTries || ctx.Err() != nil {
			return err
		}
	}
}

// Start starts the server after Stop or Kill, on the same port and data, and
// returns once it answers. Starting a running server is nil.
func (i *Instance) Start(ctx context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	if i.child == nil || !i.child.Running() {
		child, err := proc.Start(i.spec())
		if err != nil {
			return err
		}
		i.child = child
	}
	return i.child.Await(ctx, i.ready)
}

// Stop ends the server gracefully. Stopping a stopped server is nil.
func (i *Instance) Stop() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.child == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return i.child.Stop(ctx)
}

// Kill ends the server with SIGKILL. Killing a stopped server is nil.
func (i *Instance) Kill() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.child == nil {
		return nil
	}
	return i.child.Kill()
}

// Pause freezes the server (SIGSTOP): its sockets stay open and silent, as
// those of a host that has died. Resume ends it.
func (i *Instance) Pause() error { return i.process().Pause() }

// Resume lets a paused server go on.
func (i *Instance) Resume() error { return i.process().Resume() }

func (i *Instance) process() *proc.Process {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.child
}

// Close kills the server and removes its files. Closing twice is nil.
func (i *Instance) Close() error {
	return errors.Join(i.Kill(), os.RemoveAll(i.dir))
}

// Port returns the port on 127.0.0.1; it stays the same over restarts.
func (i *Instance) Port() int { return i.port }

// Addr returns 127.0.0.1:port.
func (i *Instance) Addr() string { return proc.Loopback(i.port) }

func (i *Instance) path(name string) string { return filepath.Join(i.dir, name) }

// newInstance makes the folder, under dir or the system's temporary folder. rootEnv is the
// variable that names the root of its programs.
func newInstance(dir, kind, rootEnv string) (*Instance, error) {
	home, err := os.MkdirTemp(dir, "transmsg-"+kind+"-")
	if err != nil {
		return nil, fmt.Errorf("private %s: %w", kind, err)
	}
	return &Instance{dir: home, root: proc.Root(os.Getenv(rootEnv))}, nil
}
