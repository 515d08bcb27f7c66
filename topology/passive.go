package topology

import (
	"context"
	"errors"
	"fmt"
)

// ErrHidden is what a [Passive] wraps where the broker does not tell this login whether something exists.
var ErrHidden = errors.New("the broker does not tell this login")

// Passive asks a broker over AMQP whether something exists, by passive declares, which change nothing. Before RabbitMQ
// 4.3 they need no right, since then any one on the name. An error that is not [ErrHidden] is that the broker did not
// answer.
type Passive interface {
	Exchange(ctx context.Context, name string) (exists bool, err error)
	Queue(ctx context.Context, name string) (exists bool, err error)
	// Version is the server's, "" where it does not tell.
	Version() string
}

// ReadPassive makes a Broker of what passive declares tell of a plan's exchanges and queues: that they exist. All else
// is unseen. The error is the first that is not [ErrHidden].
func ReadPassive(ctx context.Context, asked Passive, plan *Plan) (*Broker, error) {
	b := &Broker{
		Version: asked.Version(), VHost: plan.VHost, HasVHost: true, // it let the login in
		Exchanges: map[string]Exchange{}, Queues: map[string]Queue{}, hidden: map[string]string{},
	}
	w := plan.wanted()
	for _, e := range w.exchanges {
		exists, err := asked.Exchange(ctx, e.Name)
		if exists, err = b.told("exchange "+e.Name, exists, err); err != nil {
			return nil, err
		}
		if exists {
			b.Exchanges[e.Name] = Exchange{Name: e.Name}
		}
	}
	for _, q := range w.queues {
		exists, err := asked.Queue(ctx, q.Name)
		if exists, err = b.told("queue "+q.Name, exists, err); err != nil {
			return nil, err
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

// told notes what is hidden.
func (b *Broker) told(object string, exists bool, err error) (bool, error) {
	switch {
	case errors.Is(err, ErrHidden):
		b.hidden[object] = err.Error()
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read topology: %s: %w", object, err)
	}
	return exists, nil
}
