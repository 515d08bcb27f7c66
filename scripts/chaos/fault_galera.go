package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/transmsg/transmsg/internal/dbtest"
)

// galeraKinds are the faults of a Galera cluster.
func galeraKinds() []kind {
	kinds := []kind{
		{name: "galera-node-killed", hold: seconds(2, 5), act: galeraKilled},
		{name: "galera-node-paused", hold: seconds(8, 12), act: galeraPaused},
		{name: "galera-partition", hold: seconds(8, 12), act: galeraPartition},
		{name: "galera-one-writer", hold: seconds(3, 5), act: galeraOneWriter},
	}
	for i := range kinds {
		kinds[i].mode, kinds[i].database, kinds[i].silent = modeGalera, true, true
	}
	return kinds
}

// lone does something to one node, has the balancer leave it out as a health check does, and
// waits for the cluster to be whole again. It bit when the others see two nodes.
func (f *fault) lone(ctx context.Context, breaks, mends func(*dbtest.MariaDBServer) error) (proof, error) {
	g, ok := f.db.(*galera)
	if !ok {
		return proof{}, errors.New("the store is no cluster")
	}
	i := f.rng.IntN(len(g.nodes))
	n, other := g.nodes[i], g.nodes[(i+1)%len(g.nodes)]
	if err := breaks(n); err != nil {
		return proof{}, errors.Join(err, mends(n))
	}
	smaller := false
	p, err := f.hold(ctx, "calls and writes failed, and a cluster of two", func() int {
		if smaller = smaller || strings.HasPrefix(g.size(ctx, other), "2 Primary"); !smaller {
			return 0
		}
		g.balance(n)
		return f.failures()
	})
	err = errors.Join(err, mends(n), g.whole(context.WithoutCancel(ctx)))
	g.balance()
	return p, err
}

func galeraKilled(ctx context.Context, f *fault) (proof, error) {
	return f.lone(ctx, (*dbtest.MariaDBServer).Kill, func(n *dbtest.MariaDBServer) error {
		return n.Start(context.WithoutCancel(ctx))
	})
}

func galeraPaused(ctx context.Context, f *fault) (proof, error) {
	return f.lone(ctx, (*dbtest.MariaDBServer).Pause, (*dbtest.MariaDBServer).Resume)
}

// galeraPartition makes a node drop every packet of its group.
func galeraPartition(ctx context.Context, f *fault) (proof, error) {
	isolate := func(on int) func(*dbtest.MariaDBServer) error {
		return func(n *dbtest.MariaDBServer) error {
			return n.Exec(context.WithoutCancel(ctx),
				fmt.Sprintf("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=%d'", on))
		}
	}
	return f.lone(ctx, isolate(1), isolate(0))
}

// galeraOneWriter has the balancer lead to one node alone and cuts what is open, as a balancer
// for one writer does when that changes.
func galeraOneWriter(ctx context.Context, f *fault) (proof, error) {
	g, ok := f.db.(*galera)
	if !ok {
		return proof{}, errors.New("the store is no cluster")
	}
	g.balancer.Aim(g.nodes[f.rng.IntN(len(g.nodes))].Addr())
	cut := g.balancer.Cut(true)
	p, err := f.hold(ctx, "connections moved to one writer", func() int { return cut })
	g.balance()
	return p, err
}
