package topology

import (
	"encoding/json"
	"fmt"
	"strings"
)

// definitions is a definitions file, as brokers export and import it, and also the answers of the management API,
// whose objects have the same fields. Fields that nothing here asks for are passed over.
type definitions struct {
	Version          string                `json:"rabbitmq_version,omitempty"`
	OldVersion       string                `json:"rabbit_version,omitempty"`
	VHosts           []vhostJSON           `json:"vhosts,omitempty"`
	Users            []userJSON            `json:"users,omitempty"`
	Permissions      []permissionJSON      `json:"permissions,omitempty"`
	TopicPermissions []topicPermissionJSON `json:"topic_permissions,omitempty"`
	Parameters       []parameterJSON       `json:"parameters,omitempty"`
	Policies         []policyJSON          `json:"policies,omitempty"`
	Exchanges        []exchangeJSON        `json:"exchanges,omitempty"`
	Queues           []queueJSON           `json:"queues,omitempty"`
	Bindings         []bindingJSON         `json:"bindings,omitempty"`
}

type vhostJSON struct {
	Name string `json:"name"`
}

type userJSON struct {
	Name      string `json:"name"`
	Hash      string `json:"password_hash"`
	Algorithm string `json:"hashing_algorithm"`
	Tags      any    `json:"tags"` // text with commas, or a list
}

type permissionJSON struct {
	User      string `json:"user"`
	VHost     string `json:"vhost"`
	Configure string `json:"configure"`
	Write     string `json:"write"`
	Read      string `json:"read"`
}

type topicPermissionJSON struct {
	User     string `json:"user"`
	VHost    string `json:"vhost"`
	Exchange string `json:"exchange"`
}

type parameterJSON struct {
	VHost     string          `json:"vhost,omitempty"`
	Component string          `json:"component"`
	Value     json.RawMessage `json:"value"`
}

type policyJSON struct {
	VHost      string         `json:"vhost,omitempty"`
	Name       string         `json:"name"`
	Pattern    string         `json:"pattern"`
	ApplyTo    string         `json:"apply-to"`
	Priority   int64          `json:"priority"`
	Definition map[string]any `json:"definition"`
}

type exchangeJSON struct {
	VHost      string         `json:"vhost,omitempty"`
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Durable    bool           `json:"durable"`
	AutoDelete bool           `json:"auto_delete"`
	Internal   bool           `json:"internal"`
	Arguments  map[string]any `json:"arguments"`
}

type queueJSON struct {
	VHost      string         `json:"vhost,omitempty"`
	Name       string         `json:"name"`
	Durable    bool           `json:"durable"`
	AutoDelete bool           `json:"auto_delete"`
	Exclusive  bool           `json:"exclusive,omitempty"`
	Kind       string         `json:"type,omitempty"`
	Arguments  map[string]any `json:"arguments"`
}

type bindingJSON struct {
	VHost       string         `json:"vhost,omitempty"`
	Source      string         `json:"source"`
	Destination string         `json:"destination"`
	Kind        string         `json:"destination_type"`
	Key         string         `json:"routing_key"`
	Arguments   map[string]any `json:"arguments"`
}

// fileParts are the parts of a file by its keys. A file without the key does not tell of the part.
var fileParts = map[string]Part{
	"queues": PartQueues, "exchanges": PartExchanges, "bindings": PartBindings, "policies": PartPolicies,
	"users": PartUsers, "permissions": PartPermissions, "topic_permissions": PartTopicPermissions,
	"parameters": PartOperatorPolicies,
}

// ReadDefinitions makes a Broker of an export, by rabbitmqctl, rabbitmqadmin or the management API: of the whole
// broker, or of one virtual host alone, which has neither users nor rights, and no name, so that vhost is taken to be
// it. Exclusive queues are in no export. An error says where the text is no definitions file.
func ReadDefinitions(text []byte, vhost string) (*Broker, error) {
	var d definitions
	var keys map[string]json.RawMessage
	if err := decode(text, &keys); err != nil {
		return nil, fmt.Errorf("read definitions: %w", err)
	}
	if err := decode(text, &d); err != nil {
		return nil, fmt.Errorf("read definitions: %w", err)
	}
	if _, ok := keys["queues"]; !ok {
		return nil, fmt.Errorf("read definitions: no key %q: this is no export of a broker's definitions", "queues")
	}
	b, err := d.broker(vhost)
	if err != nil {
		return nil, fmt.Errorf("read definitions: %w", err)
	}
	for key, part := range fileParts {
		if _, ok := keys[key]; !ok {
			b.unseen("the export has no "+key, part)
		}
	}
	if _, whole := keys["vhosts"]; !whole {
		b.HasVHost = true // an export of one virtual host
	}
	for _, e := range builtIn {
		if _, ok := b.Exchanges[e.Name]; !ok {
			b.Exchanges[e.Name] = e // in no export
		}
	}
	return b, nil
}

// builtIn are the exchanges that every virtual host has.
var builtIn = []Exchange{
	{Name: "amq.direct", Type: typeDirect, Durable: true},
	{Name: "amq.fanout", Type: typeFanout, Durable: true},
	{Name: "amq.topic", Type: typeTopic, Durable: true},
	{Name: "amq.headers", Type: "headers", Durable: true},
	{Name: "amq.match", Type: "headers", Durable: true},
	{Name: "amq.rabbitmq.trace", Type: typeTopic, Durable: true, Internal: true},
}

// broker is what the definitions say of one virtual host.
func (d *definitions) broker(vhost string) (*Broker, error) {
	b := &Broker{
		Version: d.Version, VHost: vhost,
		Exchanges: map[string]Exchange{}, Queues: map[string]Queue{},
		Users: map[string]User{}, Permissions: map[string]Permission{},
	}
	if b.Version == "" {
		b.Version = d.OldVersion
	}
	if b.major() == 0 {
		b.unseen("no version is given", PartVersion)
	}
	here := func(of string) bool { return of == vhost || of == "" }
	for _, v := range d.VHosts {
		b.HasVHost = b.HasVHost || v.Name == vhost
	}
	for _, e := range d.Exchanges {
		if here(e.VHost) {
			b.Exchanges[e.Name] = Exchange{e.Name, e.Type, e.Durable, e.AutoDelete, e.Internal, plainMap(e.Arguments)}
		}
	}
	for _, q := range d.Queues {
		if here(q.VHost) {
			b.Queues[q.Name] = Queue{
				q.Name, q.Durable, q.AutoDelete, q.Exclusive, plainMap(q.Arguments), strings.ToLower(q.Kind),
			}
		}
	}
	for _, x := range d.Bindings {
		if here(x.VHost) {
			b.Bindings = append(b.Bindings,
				Binding{x.Source, x.Destination, x.Kind == "exchange", x.Key, plainMap(x.Arguments)})
		}
	}
	d.rights(b, here)
	return b, d.policies(b, here)
}

func (d *definitions) rights(b *Broker, here func(string) bool) {
	for _, u := range d.Users {
		b.Users[u.Name] = User{u.Name, tags(u.Tags), u.Hash, u.Algorithm}
	}
	for _, p := range d.Permissions {
		if here(p.VHost) {
			b.Permissions[p.User] = Permission{p.User, p.Configure, p.Write, p.Read}
		}
	}
	for _, p := range d.TopicPermissions {
		if here(p.VHost) {
			b.TopicPermissions = append(b.TopicPermissions, TopicPermission{p.User, p.Exchange})
		}
	}
}

func (d *definitions) policies(b *Broker, here func(string) bool) error {
	for _, p := range d.Policies {
		if here(p.VHost) {
			b.Policies = append(b.Policies, p.policy())
		}
	}
	for _, p := range d.Parameters {
		if !here(p.VHost) || p.Component != "operator_policy" {
			continue
		}
		var value policyJSON
		if err := decode(p.Value, &value); err != nil {
			return fmt.Errorf("operator policy: %w", err)
		}
		b.OperatorPolicies = append(b.OperatorPolicies, value.policy())
	}
	return nil
}

func (p policyJSON) policy() Policy {
	return Policy{p.Name, p.Pattern, p.ApplyTo, p.Priority, plainMap(p.Definition)}
}

// tags are a user's, written as a list or as text with commas.
func tags(v any) []string {
	var out []string
	switch v := v.(type) {
	case string:
		for tag := range strings.SplitSeq(v, ",") {
			if tag != "" {
				out = append(out, tag)
			}
		}
	case []any:
		for _, tag := range v {
			out = append(out, fmt.Sprint(tag))
		}
	}
	return out
}
