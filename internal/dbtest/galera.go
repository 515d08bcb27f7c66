package dbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/transmsg/transmsg/internal/proc"
)

// galeraProvider is what makes a MariaDB a node.
const galeraProvider = "/usr/lib/galera/libgalera_smm.so"

// GaleraNodes is how many nodes a cluster has.
const GaleraNodes = 3

// galeraNode is what a node of a cluster has besides its port.
type galeraNode struct {
	group, state, increment int      // ports
	peers                   []string // addresses of the groups of all nodes
	founds                  bool     // starts the cluster instead of joining it
}

// NewGalera starts a Galera cluster of MariaDB on loopback, with flags for each node. Closing
// one ends that node alone; the caller closes all. Nodes are started again by Start, and take
// what they missed from the others (rsync).
func NewGalera(ctx context.Context, dir string, flags []string) (nodes []*MariaDBServer, err error) {
	defer func() {
		if err != nil {
			for _, n := range nodes {
				err = errors.Join(err, n.Close())
			}
			nodes = nil
		}
	}()
	root := proc.Root(os.Getenv(EnvMySQLRoot))
	if found, err := root.Glob(galeraProvider); err != nil || found == "" {
		return nil, errors.Join(err, fmt.Errorf("no %s; next step: apt-get install galera-4 rsync", galeraProvider))
	}
	ports, err := proc.FreePorts(3 * GaleraNodes)
	if err != nil {
		return nil, err
	}
	var peers []string
	for i := range GaleraNodes {
		peers = append(peers, proc.Loopback(ports[3*i]))
	}
	for i := range GaleraNodes {
		n, err := NewMariaDB(ctx, dir, MariaDBOptions{Flags: flags, galera: &galeraNode{
			group: ports[3*i], state: ports[3*i+1], increment: ports[3*i+2], peers: peers, founds: i == 0,
		}})
		if err != nil {
			return nodes, err
		}
		nodes = append(nodes, n)
		n.options.galera.founds = false // from now on it joins those who are there
	}
	return nodes, nil
}

// galeraFlags make a node. Everything of the group stays on loopback.
func (s *MariaDBServer) galeraFlags() []string {
	g := s.options.galera
	if g == nil {
		return nil
	}
	peers := strings.Join(g.peers, ",")
	if g.founds {
		peers = ""
	}
	return []string{
		"--wsrep-on=ON", "--wsrep-provider=" + galeraProvider, "--wsrep-cluster-name=transmsg",
		"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--wsrep-sst-method=rsync",
		"--wsrep-node-address=127.0.0.1", fmt.Sprintf("--wsrep-node-name=node-%d", g.group),
		"--wsrep-sst-receive-address=" + proc.Loopback(g.state),
		fmt.Sprintf("--wsrep-provider-options=gmcast.listen_addr=tcp://%s;ist.recv_addr=%s;base_port=%d;base_dir=%s",
			proc.Loopback(g.group), proc.Loopback(g.increment), g.group, s.dir),
		"--wsrep-cluster-address=gcomm://" + peers,
	}
}
