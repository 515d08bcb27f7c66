package topology

import (
	"context"
	"fmt"
)

// Passive asks a broker over AMQP whether something exists, by passive declares, which need no right and change
// nothing. An error is that the broker did not answer.
type Passive interface {
	Exchange(ctx context.Context, name string) (exists bool, err error)
	Queue(ctx context.Context, name string) (exists bool, err error)
	// Version is the server's, "" where it does not tell.
	Version() string
}

// ReadPassive makes a Broker of what passive declares tell of a plan's exchanges and queues: that they exist. All
// else is unseen. The error is the first that asked returns.
func ReadPassive(ctx context.Context, asked Passive, plan *Plan) (*Broker, error) {
	b := &Broker{
		Version: asked.Version(), VHost: plan.VHost, HasVHost: true, // it let the login in
		Exchanges: map[string]Exchange{}, Queues: map[string]Queue{},
	}
	w := plan.wanted()
	for _, e := range w.exchanges {
		exists, err := asked.Exchange(ctx, e.Name)
		if err != nil {
			return nil, fmt.Errorf("read topology: exchange %s: %w", e.Name, err)
		}
		if exists {
			b.Exchanges[e.Name] = Exchange{Name: e.Name}
		}
	}
	for _, q := range w.queues {
		exists, err := asked.Queue(ctx, q.Name)
		if err != nil {
			return nil, fmt.Errorf("read topology: queue %s: %w", q.Name, err)
		}
		if exists {
			b.Queues[q.Name] = Queue{Name: q.Name}
		}
	}
	b.unseen("AMQP does not tell; give the management API or an export", PartArguments, PartBindings, PartPolicies,
		PartOperatorPolicies, PartUsers, PartPermissions, PartTopicPermissions)
	if b.major() == 0 {
		b.unseen("the server does not tell", PartVersion)
	}
	return b, nil
}
