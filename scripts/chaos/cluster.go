package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/transmsg/transmsg/internal/amqptest"
)

// errNoNamespace is returned where links cannot be dropped without touching the machine's own.
var errNoNamespace = errors.New("a cluster needs a network namespace of its own, in which the first rule of " +
	"routing is not that of local addresses: run it by scripts/chaos.sh")

// openCluster starts three nodes on loopback addresses of their own.
func (w *world) openCluster(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "ip", "rule", "show").CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip rule show: %w: %s", err, out)
	}
	if strings.HasPrefix(string(out), "0:") {
		return errNoNamespace
	}
	config := []string{"cluster_partition_handling = pause_minority"}
	for i := range 3 {
		o := amqptest.Options{Config: config, Host: fmt.Sprintf("127.0.0.%d", i+2)}
		if i > 0 {
			o.Join = w.nodes[0]
		}
		n, err := amqptest.NewNode(ctx, "", o)
		if err != nil {
			return err
		}
		w.nodes = append(w.nodes, n)
	}
	// The first one has the port mapper of all, so it is closed last.
	for _, n := range w.nodes {
		w.later(n.Close)
	}
	return nil
}

// isolate drops every packet between a node and the others of its cluster, or ends that.
func (w *world) isolate(ctx context.Context, lone *amqptest.Node, on bool) error {
	verb := map[bool]string{true: "add", false: "del"}[on]
	var errs []error
	for _, n := range w.nodes {
		if n == lone {
			continue
		}
		for _, way := range [][2]string{{n.Host(), lone.Host()}, {lone.Host(), n.Host()}} {
			out, err := exec.CommandContext(ctx, "ip", "rule", verb, "pref", "10", "from", way[0], "to", way[1],
				"blackhole").CombinedOutput()
			if err != nil {
				errs = append(errs, fmt.Errorf("ip rule %s: %w: %s", verb, err, out))
			}
		}
	}
	return errors.Join(errs...)
}

// dropped is how many packets of this namespace have had no way out so far.
func dropped() int {
	text, err := os.ReadFile("/proc/net/snmp")
	if err != nil {
		return 0
	}
	lines := strings.Split(string(text), "\n")
	names, values := strings.Fields(lines[0]), strings.Fields(lines[1])
	for i, name := range names {
		if name == "OutNoRoutes" && i < len(values) {
			n, _ := strconv.Atoi(values[i])
			return n
		}
	}
	return 0
}

// leader is the node that leads a quorum queue, asked of a node that runs; "" for none.
func (w *world) leader(asked *amqptest.Node, queue string) string {
	out, err := asked.Ctl("list_queues", "--formatter", "json", "name", "leader")
	if err != nil {
		return ""
	}
	var list []struct{ Name, Leader string }
	if json.Unmarshal([]byte(out), &list) != nil {
		return ""
	}
	for _, q := range list {
		if q.Name == queue {
			return q.Leader
		}
	}
	return ""
}

// runningSeen is how many nodes of the cluster a node believes to run.
func runningSeen(asked *amqptest.Node) int {
	out, err := asked.Eval("length(rabbit_nodes:all_running()).")
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(out))
	return n
}

// clusterLimit is how long a cluster may take to be whole again.
const clusterLimit = 2 * time.Minute

// whole waits until every node sees all three.
func (w *world) whole(ctx context.Context) error {
	for _, n := range w.nodes {
		if err := until(ctx, clusterLimit, n.Name()+" sees all nodes", func() bool {
			return runningSeen(n) == len(w.nodes)
		}); err != nil {
			return err
		}
	}
	return nil
}

// startAll starts nodes at the same time: one alone may wait for another.
func startAll(ctx context.Context, nodes []*amqptest.Node) error {
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { errs[i] = n.Start(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
