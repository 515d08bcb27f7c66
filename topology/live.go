package topology

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// API asks a broker's management API; [github.com/transmsg/transmsg/internal/management.Client] is one. Get reads the
// answer of GET /api/ and the elements of the path, which it escapes, into out.
type API interface {
	Get(ctx context.Context, out any, path ...string) error
}

// ReadAPI makes a Broker of the management API's answers about one virtual host. What its user may not see is named
// in Unseen; with the tag administrator everything is seen, with monitoring everything but users and
// rights. The error is that not even exchanges and queues could be read, or that ctx ended.
func ReadAPI(ctx context.Context, api API, vhost string) (*Broker, error) {
	var d definitions
	var refused []error
	unseen := map[Part]string{}
	ask := func(into any, part Part, path ...string) {
		var text json.RawMessage
		err := api.Get(ctx, &text, path...)
		if err == nil {
			err = decode(text, into)
		}
		if err != nil {
			unseen[part] = err.Error()
			refused = append(refused, err)
		}
	}
	var overview struct {
		Version string `json:"rabbitmq_version"`
	}
	ask(&overview, PartVersion, "overview")
	ask(&d.Exchanges, PartExchanges, "exchanges", vhost)
	ask(&d.Queues, PartQueues, "queues", vhost)
	if unseen[PartExchanges] != "" && unseen[PartQueues] != "" || ctx.Err() != nil {
		return noVHost(ctx, api, vhost, refused)
	}
	ask(&d.Bindings, PartBindings, "bindings", vhost)
	ask(&d.Policies, PartPolicies, "policies", vhost)
	var operators []policyJSON
	ask(&operators, PartOperatorPolicies, "operator-policies", vhost)
	ask(&d.Users, PartUsers, "users")
	ask(&d.Permissions, PartPermissions, "vhosts", vhost, "permissions")
	ask(&d.TopicPermissions, PartTopicPermissions, "vhosts", vhost, "topic-permissions")
	d.Version = overview.Version
	b, err := d.broker(vhost)
	if err != nil {
		return nil, fmt.Errorf("read topology: %w", err)
	}
	for _, p := range operators {
		b.OperatorPolicies = append(b.OperatorPolicies, p.policy())
	}
	delete(b.Exchanges, defaultExchange) // in every virtual host, and in no export
	b.HasVHost = true                    // its exchanges were there
	for part, why := range unseen {
		b.unseen(why, part)
	}
	return b, nil
}

// noVHost is a broker without the virtual host, where the list of those that the user sees does not have it.
func noVHost(ctx context.Context, api API, vhost string, refused []error) (*Broker, error) {
	var list []vhostJSON
	err := api.Get(ctx, &list, "vhosts")
	if err != nil || slices.Contains(list, vhostJSON{vhost}) {
		return nil, fmt.Errorf("read topology: %w", errors.Join(append(refused, err)...))
	}
	return &Broker{VHost: vhost}, nil
}
