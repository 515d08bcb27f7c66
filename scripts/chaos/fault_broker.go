package main

import (
	"context"
	"errors"

	"github.com/transmsg/transmsg/internal/amqptest"
)

func brokerStop(ctx context.Context, f *fault) (proof, error) { return f.brokerDown(ctx, f.node.Stop) }

func brokerKill(ctx context.Context, f *fault) (proof, error) {
	// RabbitMQ writes what a fault before this one declared to disk within the second.
	if err := f.node.FlushQueues(); err != nil {
		return proof{}, err
	}
	return f.brokerDown(ctx, f.node.Kill)
}

func (f *fault) brokerDown(ctx context.Context, down func() error) (proof, error) {
	if err := down(); err != nil {
		return proof{}, err
	}
	p, err := f.hold(ctx, "connections lost", f.events(wordDisconnected))
	// Also when interrupted: the servers are closed by those who opened them.
	return p, errors.Join(err, f.node.Start(context.WithoutCancel(ctx)))
}

func memoryAlarm(ctx context.Context, f *fault) (proof, error) {
	if err := f.node.MemoryAlarm(true); err != nil {
		return proof{}, err
	}
	p, err := f.hold(ctx, "connections blocked", f.events(wordBlocked, "true"))
	return p, errors.Join(err, f.node.MemoryAlarm(false))
}

func connectionsClosed(ctx context.Context, f *fault) (proof, error) {
	if err := f.node.CloseAllConnections(); err != nil {
		return proof{}, err
	}
	return f.hold(ctx, "connections lost", f.events(wordDisconnected))
}

// single is one of the routes that may be taken apart.
func (f *fault) single() route { return routes()[[]string{"c", "q"}[f.rng.IntN(2)]] }

func exchangeGone(ctx context.Context, f *fault) (proof, error) {
	r := f.single()
	if err := f.topology(func(c *amqptest.Client) error { return c.DeleteExchange(r.exchange) }); err != nil {
		return proof{}, err
	}
	p, err := f.hold(ctx, "404 met", either(f.events(wordChannelClosed, "404"), f.events(wordOutcome, "404")))
	return p, errors.Join(err, f.topology(func(c *amqptest.Client) error { return mend(c, r) }))
}

func bindingGone(ctx context.Context, f *fault) (proof, error) {
	r := f.single()
	unbind := func(c *amqptest.Client) error { return c.Unbind(r.queues[0], r.exchange, r.key) }
	if err := f.topology(unbind); err != nil {
		return proof{}, err
	}
	// More than the few that are never routable.
	p, err := f.hold(ctx, "messages returned", func() int { return max(0, f.events(wordOutcome, "returned 312")()-10) })
	return p, errors.Join(err, f.topology(func(c *amqptest.Client) error { return mend(c, r) }))
}

// permissionGone takes the right to publish away. A busy channel keeps the rights that it
// has cached, so the connections are closed too.
func permissionGone(ctx context.Context, f *fault) (proof, error) {
	if err := errors.Join(
		f.node.SetPermissions(brokerUser, "/", "^$", "^$", "^$"), f.node.CloseAllConnections(),
	); err != nil {
		return proof{}, err
	}
	p, err := f.hold(ctx, "403 met", either(f.events(wordChannelClosed, "403"), f.events(wordOutcome, "403")))
	return p, errors.Join(err, f.node.SetPermissions(brokerUser, "/", ".*", ".*", ".*"))
}

// queueFull lets one branch of the fan-out fill up: the broker nacks what the other branch
// has taken.
func queueFull(ctx context.Context, f *fault) (proof, error) {
	f.counter.pause(queueSmall)
	defer f.counter.pause("")
	return f.hold(ctx, "messages nacked", f.events(wordOutcome, "nacked"))
}
