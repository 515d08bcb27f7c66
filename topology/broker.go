package topology

import (
	"strconv"
	"strings"
)

// Part is a part of a broker that a reader can see or not.
type Part string

// The parts.
const (
	PartVersion          Part = "version"
	PartExchanges        Part = "exchanges"
	PartQueues           Part = "queues"
	PartArguments        Part = "arguments" // of exchanges and queues: type, durability and the rest
	PartBindings         Part = "bindings"
	PartPolicies         Part = "policies"
	PartOperatorPolicies Part = "operator policies"
	PartUsers            Part = "users"
	PartPermissions      Part = "permissions"
	PartTopicPermissions Part = "topic permissions"
)

// Broker is one virtual host of a broker, as far as a reader saw it. Its maps are by name. Values of arguments and
// policies are string, bool, int64, float64, []any or map[string]any.
type Broker struct {
	// Version is the server's, such as "3.10.8"; "" with PartVersion in Unseen.
	Version string
	// VHost is the virtual host's name, HasVHost whether the broker has it.
	VHost    string
	HasVHost bool

	Exchanges        map[string]Exchange
	Queues           map[string]Queue
	Bindings         []Binding
	Policies         []Policy
	OperatorPolicies []Policy
	Users            map[string]User
	Permissions      map[string]Permission // by user
	TopicPermissions []TopicPermission

	// from is the bindings by source, made by Check.
	from map[string][]Binding

	// hidden are the objects, such as "queue orders.all", of which the broker does not tell whether they exist.
	hidden map[string]string

	// Unseen are the parts that the reader could not see, with the reason. What is not in it was seen as a whole.
	Unseen map[Part]string
}

// Exchange is an exchange of a broker.
type Exchange struct {
	Name       string
	Type       string
	Durable    bool
	AutoDelete bool
	Internal   bool
	Arguments  map[string]any
}

// Queue is a queue of a broker.
type Queue struct {
	Name       string
	Durable    bool
	AutoDelete bool
	Exclusive  bool
	Arguments  map[string]any
	// Kind is the type that the reader was told beside the arguments, "" where it was not.
	Kind string
}

// Binding leads from the exchange Source to a queue or an exchange.
type Binding struct {
	Source      string
	Destination string
	ToExchange  bool
	Key         string
	Arguments   map[string]any
}

// Policy is a policy or an operator policy.
type Policy struct {
	Name       string
	Pattern    string
	ApplyTo    string // "" means all
	Priority   int64
	Definition map[string]any
}

// User is a user of the broker's own database.
type User struct {
	Name      string
	Tags      []string
	Hash      string // of the password; "" where the reader does not show it
	Algorithm string
}

// Permission is a user's rights in the virtual host: regular expressions over names.
type Permission struct {
	User, Configure, Write, Read string
}

// TopicPermission narrows a user's rights to routing keys of a topic exchange; "" is the default exchange.
type TopicPermission struct {
	User, Exchange string
}

// The types of queues and exchanges that the rules know.
const (
	typeClassic        = "classic"
	typeQuorum         = "quorum"
	typeStream         = "stream"
	typeDirect         = "direct"
	typeFanout         = "fanout"
	typeTopic          = "topic"
	typeConsistentHash = "x-consistent-hash"
)

// Type is the queue's type: "classic", "quorum" or "stream".
func (q Queue) Type() string {
	if kind, ok := q.Arguments["x-queue-type"].(string); ok {
		return kind
	}
	if q.Kind != "" {
		return q.Kind
	}
	return typeClassic
}

// major is the first number of the server's version; 0 where it is unknown.
func (b *Broker) major() int {
	first, _, _ := strings.Cut(b.Version, ".")
	n, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return n
}

// unseen marks parts as not seen.
func (b *Broker) unseen(why string, parts ...Part) {
	if b.Unseen == nil {
		b.Unseen = map[Part]string{}
	}
	for _, p := range parts {
		b.Unseen[p] = why
	}
}
