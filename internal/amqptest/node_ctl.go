package amqptest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

const ctlTimeout = time.Minute

// errNotAsked is returned when a command ran but its effect did not show.
var errNotAsked = errors.New("no effect within its time")

// Ctl runs rabbitmqctl against the node, about 0.7 s each, and returns what it
// printed. Errors name the sub-command alone: arguments may hold a password.
func (n *Node) Ctl(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), ctlTimeout)
	defer cancel()
	cmd := n.root.Command(ctx, filepath.Join(n.sbin, "rabbitmqctl"), append([]string{"--quiet"}, args...)...)
	cmd.Env, cmd.Dir = n.env(), n.dir
	return output(cmd, args)
}

// Eval evaluates an Erlang expression, ended by a full stop, on the node.
func (n *Node) Eval(expr string) (string, error) { return n.Ctl("eval", expr) }

// AtLeast says whether the node's RabbitMQ is of that version or a later one.
func (n *Node) AtLeast(major, minor int) (bool, error) {
	text, err := n.Ctl("version")
	if err != nil {
		return false, err
	}
	var a, b int
	if _, err := fmt.Sscanf(text, "%d.%d", &a, &b); err != nil {
		return false, fmt.Errorf("version %q: %w", text, err)
	}
	return a > major || a == major && b >= minor, nil
}

// MemoryAlarm raises or clears the memory alarm, as a broker short of memory
// does, and returns once it is in force. Publishing connections are blocked
// from their next publish on.
func (n *Node) MemoryAlarm(on bool) error {
	watermark := "0.4"
	if on {
		watermark = "0.00001"
	}
	if _, err := n.Ctl("set_vm_memory_high_watermark", watermark); err != nil {
		return err
	}
	// The node checks by itself every 2.5 s; wait on the node, since a ctl call
	// per look would cost more than the state takes to come.
	want := fmt.Sprint(on)
	got, err := n.Eval(`F = fun F(0) -> timeout;
		F(I) -> case lists:any(fun({{resource_limit, memory, _}, _}) -> true; (_) -> false end,
			rabbit_alarm:get_alarms()) of ` + want + ` -> done; _ -> timer:sleep(50), F(I - 1) end
		end, F(400).`)
	if err != nil {
		return err
	}
	if got != "done" {
		return fmt.Errorf("memory alarm %t: %w", on, errNotAsked)
	}
	return nil
}

// FlushQueues writes the node's registry of quorum queues to disk. RabbitMQ does
// that by itself about every second, and a quorum queue declared just before a
// Kill is lost for good (observed on 3.10.8: consuming it ends in 541 after a
// minute). Call it between declaring such a queue and Kill.
func (n *Node) FlushQueues() error {
	_, err := n.Eval("[ok = dets:sync(T) || T <- dets:all()].")
	return err
}

// CloseAllConnections closes every client connection with 320
// CONNECTION_FORCED.
func (n *Node) CloseAllConnections() error {
	_, err := n.Ctl("close_all_connections", "closed by the test")
	return err
}

// AddVHost adds a virtual host in which guest may do everything.
func (n *Node) AddVHost(name string) error {
	if _, err := n.Ctl("add_vhost", name); err != nil {
		return err
	}
	return n.SetPermissions("guest", name, ".*", ".*", ".*")
}

// AddUser adds a user with permissions on the virtual host "/".
func (n *Node) AddUser(name, password, configure, write, read string) error {
	if _, err := n.Ctl("add_user", name, password); err != nil {
		return err
	}
	return n.SetPermissions(name, "/", configure, write, read)
}

// SetPermissions sets what a user may do in a virtual host (regular
// expressions; "" matches nothing). A busy channel keeps its cached rights.
func (n *Node) SetPermissions(user, vhost, configure, write, read string) error {
	_, err := n.Ctl("set_permissions", "-p", vhost, user, configure, write, read)
	return err
}

// ClearPermissions takes a user's access to a virtual host away.
func (n *Node) ClearPermissions(user, vhost string) error {
	_, err := n.Ctl("clear_permissions", "-p", vhost, user)
	return err
}

// Connections returns how many client connections the node has.
func (n *Node) Connections() (int, error) { return n.count("list_connections") }

// Channels returns how many channels the node has.
func (n *Node) Channels() (int, error) { return n.count("list_channels") }

func (n *Node) count(command string) (int, error) {
	out, err := n.Ctl(command, "--no-table-headers", "pid")
	if err != nil {
		return 0, err
	}
	return len(strings.Fields(out)), nil
}
