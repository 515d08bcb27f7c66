package main

import (
	"context"
	"errors"
	"slices"

	"github.com/transmsg/transmsg/internal/amqptest"
)

// clusterKinds are the faults of a cluster of brokers. An answer that a lost leader or a cut
// link owes comes never, so that sends wait for their time-out.
func clusterKinds() []kind {
	kinds := []kind{
		{name: "leader-killed", hold: seconds(3, 6), act: leaderKilled},
		{name: "node-stopped", hold: seconds(3, 6), act: nodeStopped},
		{name: "partition", hold: seconds(12, 18), act: partition},
		{name: "majority-lost", hold: seconds(4, 8), act: majorityLost},
		{name: "rolling-restart", hold: seconds(1, 2), act: rollingRestart},
	}
	for i := range kinds {
		kinds[i].mode, kinds[i].silent = modeCluster, true
	}
	return kinds
}

// others are the nodes but one.
func (f *fault) others(but *amqptest.Node) []*amqptest.Node {
	return slices.DeleteFunc(slices.Clone(f.nodes), func(n *amqptest.Node) bool { return n == but })
}

// leaderKilled kills the node that leads a queue. It bit when another one leads.
func leaderKilled(ctx context.Context, f *fault) (proof, error) {
	was := f.leader(f.node, queueQuorum)
	i := slices.IndexFunc(f.nodes, func(n *amqptest.Node) bool { return n.Name() == was })
	if i < 0 {
		return proof{What: "leader of " + queueQuorum}, nil
	}
	lead := f.nodes[i]
	if err := lead.Kill(); err != nil {
		return proof{}, err
	}
	asked := f.others(lead)[0]
	p, err := f.hold(ctx, "leaders changed", func() int {
		if now := f.leader(asked, queueQuorum); now == "" || now == was {
			return 0
		}
		return 1
	})
	return p, errors.Join(err, f.back(ctx, lead))
}

// back starts nodes again and waits for the cluster, also when interrupted: the servers are
// closed by those who opened them.
func (f *fault) back(ctx context.Context, nodes ...*amqptest.Node) error {
	ctx = context.WithoutCancel(ctx)
	if err := startAll(ctx, nodes); err != nil {
		return err
	}
	return f.whole(ctx)
}

func nodeStopped(ctx context.Context, f *fault) (proof, error) {
	n := f.nodes[f.rng.IntN(len(f.nodes))]
	if err := n.Stop(); err != nil {
		return proof{}, err
	}
	asked := f.others(n)[0]
	p, err := f.hold(ctx, "nodes missed by another", func() int { return len(f.nodes) - runningSeen(asked) })
	return p, errors.Join(err, f.back(ctx, n))
}

// partition drops every packet between one node and the others, for longer than they need
// to notice. It bit when packets were dropped and the others miss the node.
func partition(ctx context.Context, f *fault) (proof, error) {
	lone := f.nodes[f.rng.IntN(len(f.nodes))]
	asked, before := f.others(lone)[0], dropped()
	if err := f.isolate(ctx, lone, true); err != nil {
		return proof{}, errors.Join(err, f.isolate(context.WithoutCancel(ctx), lone, false))
	}
	missed := false
	p, err := f.hold(ctx, "packets dropped, and the node missed by the others", func() int {
		if missed = missed || runningSeen(asked) == len(f.nodes)-1; !missed {
			return 0
		}
		return dropped() - before
	})
	err = errors.Join(err, f.isolate(context.WithoutCancel(ctx), lone, false))
	return p, errors.Join(err, f.whole(context.WithoutCancel(ctx)))
}

// majorityLost kills two of three. It bit when nothing is acked any more.
func majorityLost(ctx context.Context, f *fault) (proof, error) {
	last := f.nodes[f.rng.IntN(len(f.nodes))]
	killed := f.others(last)
	for _, n := range killed {
		if err := n.Kill(); err != nil {
			return proof{}, errors.Join(err, f.back(ctx, killed...))
		}
	}
	before := -1
	p, err := f.hold(ctx, "connections lost or sends unanswered, and nothing acked", func() int {
		acked := f.book.acked()
		if before != acked {
			before = acked
			return 0
		}
		return f.events(wordDisconnected)() + f.events(wordOutcome, "unknown")()
	})
	return p, errors.Join(err, f.back(ctx, killed...))
}

// rollingRestart restarts one node after the other, as an upgrade does.
func rollingRestart(ctx context.Context, f *fault) (proof, error) {
	p := proof{What: "nodes restarted while clients were connected"}
	for _, n := range f.nodes {
		mark, err := f.book.mark()
		if err != nil {
			return p, err
		}
		f.mark = mark
		if err := n.Stop(); err != nil {
			return p, err
		}
		if err := sleep(ctx, f.step.Hold); err != nil {
			return p, errors.Join(err, f.back(ctx, n))
		}
		if err := f.back(ctx, n); err != nil {
			return p, err
		}
		if f.events(wordDisconnected)() > 0 {
			p.Count++
		}
	}
	return p, nil
}
