package amqptest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/proc"
)

const (
	// epmdAddresses are those of a cluster's nodes, which ask the port mapper at each other's.
	epmdAddresses = "127.0.0.1,127.0.0.2,127.0.0.3,127.0.0.4"
	bootTimeout   = 2 * time.Minute
	stopTimeout   = time.Minute
	bootTries     = 3
	// badConfig is how RabbitMQ ends when it refuses a line of its configuration,
	// which other ports do not cure.
	badConfig = "failed_to_prepare_configuration"
)

// Options of a private node; the zero value is a plain node.
type Options struct {
	// Config is lines of rabbitmq.conf, such as "channel_max = 16".
	Config []string
	// Plugins to enable, such as rabbitmq_management; each costs boot time.
	Plugins []string
	// Host is the loopback address that the node listens on and dials the others of its
	// cluster from, such as 127.0.0.2, so that links can be dropped; "" means 127.0.0.1.
	Host string
	// Join is a running node whose cluster this one joins. It must be closed last.
	Join *Node
}

// Node is a private RabbitMQ node on ports and folders of its own. It boots in
// about six seconds, so share one per package where the tests allow it. Safe
// for concurrent use.
type Node struct {
	dir     string // All the node's files; removed by Close.
	root    proc.Root
	sbin    string // In root.
	options Options

	mu     sync.Mutex // Held while the node starts or ends.
	ports  nodePorts
	epmd   *proc.Process
	server *proc.Process
}

// nodePorts stay the same over Stop, Kill and Start.
type nodePorts struct{ amqp, dist, epmd, ctl int }

// StartNode starts a private node and ends it, files and all, when the test
// ends. The test fails at once when the node does not boot.
func StartNode(tb TB, options Options) *Node {
	tb.Helper()
	n, err := NewNode(tb.Context(), "", options)
	if err != nil {
		tb.Fatalf("amqptest: %v", err)
		return nil
	}
	tb.Cleanup(func() {
		if err := n.Close(); err != nil {
			tb.Errorf("amqptest: %v", err)
		}
	})
	return n
}

// NewNode is StartNode for programs and TestMain: it starts a node that keeps
// its files in a new folder under dir ("" means the system's temporary folder)
// and returns once it accepts connections. The caller calls Close.
func NewNode(ctx context.Context, dir string, options Options) (*Node, error) {
	root := proc.Root(os.Getenv(EnvRoot))
	sbin, err := findSbin(root)
	if err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp(dir, "transmsg-rabbitmq-")
	if err != nil {
		return nil, fmt.Errorf("private node: %w", err)
	}
	n := &Node{dir: home, root: root, sbin: sbin, options: options}
	// Another process may take a free port before the node does.
	for try := 1; ; try++ {
		if err = n.boot(ctx); err == nil {
			return n, nil
		}
		if try == bootTries || ctx.Err() != nil || strings.Contains(err.Error(), badConfig) {
			return nil, errors.Join(fmt.Errorf("private node: %w", err), n.Close())
		}
	}
}

// boot chooses ports, writes the files and starts the node for the first time.
func (n *Node) boot(ctx context.Context) error {
	free, err := proc.FreePorts(4)
	if err != nil {
		return err
	}
	n.ports = nodePorts{amqp: free[0], dist: free[1], epmd: free[2], ctl: free[3]}
	if n.options.Join != nil {
		n.ports.epmd = n.options.Join.ports.epmd
	}
	if err := n.writeFiles(); err != nil {
		return err
	}
	if err := n.Start(ctx); err != nil {
		return errors.Join(err, n.Kill(), n.endEPMD())
	}
	return n.join()
}

// join makes the node one of the cluster that it was told of.
func (n *Node) join() error {
	if n.options.Join == nil {
		return nil
	}
	for _, args := range [][]string{{"stop_app"}, {"join_cluster", n.options.Join.name()}, {"start_app"}} {
		if _, err := n.Ctl(args...); err != nil {
			return err
		}
	}
	return nil
}

// name is the node's name in Erlang.
func (n *Node) name() string {
	if n.options.Host != "" {
		return fmt.Sprintf("transmsg-%d@%s", n.ports.amqp, n.options.Host)
	}
	return fmt.Sprintf("transmsg-%d@localhost", n.ports.amqp)
}

// Name is the node's name as rabbitmqctl shows it.
func (n *Node) Name() string { return n.name() }

// Host is the loopback address that the node listens on.
func (n *Node) Host() string { return cmp.Or(n.options.Host, "127.0.0.1") }

// Close kills the node and its port mapper and removes its files. Closing twice
// is nil.
func (n *Node) Close() error {
	return errors.Join(n.Kill(), n.endEPMD(), os.RemoveAll(n.dir))
}

// Start starts the node after Stop or Kill, on the same ports and data, and
// returns once it accepts AMQP connections. Starting a running node is nil.
func (n *Node) Start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	if err := n.startEPMD(); err != nil {
		return err
	}
	if n.server == nil || !n.server.Running() {
		server, err := proc.Start(proc.Spec{
			Path:   filepath.Join(n.sbin, "rabbitmq-server"),
			Root:   n.root,
			Env:    n.env(),
			Dir:    n.dir,
			Output: filepath.Join(n.dir, "server.log"),
		})
		if err != nil {
			return err
		}
		n.server = server
	}
	return n.server.Await(ctx, func(context.Context) error {
		// A handshake, since the port opens before the node is ready to serve.
		conn, err := amqp.DialConfig(n.URL(), amqp.Config{Dial: amqp.DefaultDial(5 * time.Second)})
		if err != nil {
			return err
		}
		return conn.CloseDeadline(time.Now().Add(5 * time.Second))
	})
}

// Stop ends the node gracefully: connections are told 320 CONNECTION_FORCED.
// Stopping a stopped node is nil.
func (n *Node) Stop() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return n.server.Stop(ctx)
}

// Kill ends the node with SIGKILL. A quorum queue declared in the last seconds
// may be lost: see FlushQueues. Killing a stopped node is nil.
func (n *Node) Kill() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.server == nil {
		return nil
	}
	return n.server.Kill()
}

// Pause freezes the node (SIGSTOP): its sockets stay open and silent, as those
// of a host that has died. Resume ends it.
func (n *Node) Pause() error { return n.child().Pause() }

// Resume lets a paused node go on.
func (n *Node) Resume() error { return n.child().Resume() }

func (n *Node) child() *proc.Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.server
}

// Port returns the AMQP port on 127.0.0.1; it stays the same over restarts.
func (n *Node) Port() int { return n.ports.amqp }

// Addr returns host:port, 127.0.0.1 by default.
func (n *Node) Addr() string { return net.JoinHostPort(n.Host(), fmt.Sprint(n.ports.amqp)) }

// URL returns the AMQP URL of the virtual host "/" for guest.
func (n *Node) URL() string { return n.URLFor("guest", "guest", "/") }

// URLFor returns the AMQP URL for another user or virtual host.
func (n *Node) URLFor(user, password, vhost string) string {
	u := url.URL{
		Scheme: "amqp", User: url.UserPassword(user, password), Host: n.Addr(),
		Path: "/" + vhost, RawPath: "/" + url.PathEscape(vhost),
	}
	return u.String()
}

// startEPMD starts a port mapper of our own, in the foreground: the one that
// Erlang would start by itself is a daemon that outlives the node.
func (n *Node) startEPMD() error {
	if n.options.Join != nil || (n.epmd != nil && n.epmd.Running()) {
		return nil // in a cluster it is the first node's
	}
	path, err := n.root.Find("epmd")
	if err != nil {
		return err
	}
	epmd, err := proc.Start(proc.Spec{
		Path:   path,
		Root:   n.root,
		Args:   []string{"-port", fmt.Sprint(n.ports.epmd), "-address", epmdAddresses},
		Dir:    n.dir,
		Output: filepath.Join(n.dir, "epmd.log"),
	})
	if err != nil {
		return err
	}
	n.epmd = epmd
	return nil
}

func (n *Node) endEPMD() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.epmd == nil {
		return nil
	}
	return n.epmd.Kill()
}
