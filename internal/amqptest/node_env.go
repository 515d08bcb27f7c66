package amqptest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/transmsg/transmsg/internal/proc"
)

// errNoServer is returned when RabbitMQ's own scripts are not installed.
var errNoServer = errors.New("no rabbitmq-server found under /usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin; " +
	"next step: apt-get install rabbitmq-server")

// findSbin returns the folder with RabbitMQ's own scripts. The wrappers in
// /usr/sbin are of no use: they change to the user and the folders of the
// machine's broker.
func findSbin(root proc.Root) (string, error) {
	found, err := root.Glob("/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server")
	if err != nil || found == "" {
		return "", errNoServer
	}
	return filepath.Dir(found), nil
}

func (n *Node) path(name string) string { return filepath.Join(n.dir, name) }

func (n *Node) writeFiles() error {
	config := append([]string{
		"log.console = true",
		"log.console.level = warning",
		"log.file = false",
		// Without an absolute limit a machine with little free disk raises an alarm.
		"disk_free_limit.absolute = 1MB",
	}, n.options.Config...)
	plugins := "[" + strings.Join(n.options.Plugins, ",") + "].\n"
	return errors.Join(
		os.WriteFile(n.path("rabbitmq.conf"), []byte(strings.Join(config, "\n")+"\n"), 0o600),
		os.WriteFile(n.path("enabled_plugins"), []byte(plugins), 0o600),
		os.MkdirAll(n.path("log"), 0o700),
	)
}

// env is the whole environment of the server and of rabbitmqctl. Nothing that
// the machine's broker uses is in it: not the node name, not a port, not the
// cookie (it is in HOME), not rabbitmq-env.conf.
func (n *Node) env() []string {
	home := n.dir
	if n.options.Join != nil {
		home = n.options.Join.dir // nodes of a cluster share the cookie
	}
	env := []string{
		"PATH=" + os.Getenv("PATH"),
		"LANG=C.UTF-8",
		"HOME=" + home,
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"ERL_CRASH_DUMP_SECONDS=0",
		"RABBITMQ_NODE_IP_ADDRESS=" + n.Host(),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=" + n.erlangArgs(),
		"RABBITMQ_MNESIA_BASE=" + n.path("data"),
		"RABBITMQ_LOG_BASE=" + n.path("log"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + n.path("enabled_plugins"),
		// Without the suffix, which old versions add themselves.
		"RABBITMQ_CONFIG_FILE=" + n.path("rabbitmq"),
		"RABBITMQ_CONF_ENV_FILE=/dev/null",
		// The script then becomes the Erlang machine instead of its parent, so
		// that a signal to our child reaches it.
		"RUNNING_UNDER_SYSTEMD=true",
	}
	p := n.ports
	if n.options.Host != "" {
		env = append(env, "RABBITMQ_USE_LONGNAME=true")
	}
	return append(env,
		"RABBITMQ_NODENAME="+n.name(),
		fmt.Sprintf("RABBITMQ_NODE_PORT=%d", p.amqp),
		fmt.Sprintf("RABBITMQ_DIST_PORT=%d", p.dist),
		fmt.Sprintf("ERL_EPMD_PORT=%d", p.epmd),
		// rabbitmqctl tries these in turn; the default range is eleven ports
		// shared by all nodes of the machine.
		fmt.Sprintf("RABBITMQ_CTL_DIST_PORT_MIN=%d", p.ctl),
		fmt.Sprintf("RABBITMQ_CTL_DIST_PORT_MAX=%d", p.ctl+50),
	)
}

// erlangArgs keep the distribution on the node's address. A node with one of its own also
// dials from it, and notices within some ten seconds instead of a minute that another is silent.
func (n *Node) erlangArgs() string {
	ip := "{" + strings.ReplaceAll(n.Host(), ".", ",") + "}"
	args := "-kernel inet_dist_use_interface " + ip
	if n.options.Host != "" {
		args += " -kernel inet_dist_connect_options [{ip," + ip + "}] -kernel net_ticktime 8"
	}
	return args
}
