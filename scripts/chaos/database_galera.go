package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/internal/faultproxy"
)

// galera is a cluster of three MariaDB nodes, all of which take writes, and a balancer that
// deals connections out to them in turn.
type galera struct {
	nodes    []*dbtest.MariaDBServer
	balancer *faultproxy.Proxy
	schema   string
	admin    *sql.DB // through the balancer
}

func openGalera(ctx context.Context) (_ *galera, err error) {
	g := &galera{}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	if g.nodes, err = dbtest.NewGalera(ctx, "", []string{"--max-connections=400"}); err != nil {
		return nil, err
	}
	if g.schema, err = g.nodes[0].NewSchema(ctx); err != nil {
		return nil, err
	}
	if g.balancer, err = faultproxy.New(g.nodes[0].Addr()); err != nil {
		return nil, err
	}
	g.balance()
	g.admin, err = sql.Open("mysql", replaceAddr(g.nodes[0].AdminDSN(g.schema), g.nodes[0].Addr(), g.balancer.Addr())+
		"?wsrep_sync_wait=15")
	return g, err
}

// balance deals connections out to all nodes but those that a health check would leave out.
func (g *galera) balance(out ...*dbtest.MariaDBServer) {
	var in []string
	for _, n := range g.nodes {
		if len(out) == 0 || n != out[0] {
			in = append(in, n.Addr())
		}
	}
	g.balancer.Aim(in...)
}

func (g *galera) dsn() string {
	return replaceAddr(g.nodes[0].DSN(g.schema), g.nodes[0].Addr(), g.balancer.Addr())
}

// member is the DSN of the nth process: every second one writes to one node, the others go
// through the balancer.
func (g *galera) member(n int) string {
	if n%2 == 0 {
		return g.nodes[n/2%len(g.nodes)].DSN(g.schema)
	}
	return g.dsn()
}

func (g *galera) pool() *sql.DB { return g.admin }

// None of these is a fault of the mode.
func (g *galera) start(context.Context) error                { return errNoServer }
func (g *galera) stop() error                                { return errNoServer }
func (g *galera) kill() error                                { return errNoServer }
func (g *galera) readOnly(context.Context, bool) error       { return errNoServer }
func (g *galera) waiting(context.Context) (int, error)       { return 0, errNoServer }
func (g *galera) lock(context.Context) (func() error, error) { return nil, errNoServer }
func (g *galera) size(ctx context.Context, of *dbtest.MariaDBServer) string {
	n, err := of.Status(ctx, "wsrep_cluster_size")
	if err != nil {
		return ""
	}
	state, err := of.Status(ctx, "wsrep_cluster_status")
	if err != nil {
		return ""
	}
	synced, err := of.Status(ctx, "wsrep_local_state_comment")
	if err != nil {
		return ""
	}
	return fmt.Sprint(n, " ", state, " ", synced)
}

// wholeGalera is what each node says when all are there.
const wholeGalera = "3 Primary Synced"

func (g *galera) whole(ctx context.Context) error {
	for _, n := range g.nodes {
		if err := until(ctx, clusterLimit, "each node says "+wholeGalera, func() bool {
			return g.size(ctx, n) == wholeGalera
		}); err != nil {
			return fmt.Errorf("%w: %s says %q", err, n.Addr(), g.size(ctx, n))
		}
	}
	return nil
}

func (g *galera) close() error {
	var errs []error
	if g.admin != nil {
		errs = append(errs, g.admin.Close())
	}
	if g.balancer != nil {
		errs = append(errs, g.balancer.Close())
	}
	for _, n := range g.nodes {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}
