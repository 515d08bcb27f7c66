package management

import "context"

// DefaultExchange is the name by which paths of the API know the exchange without a name.
const DefaultExchange = "amq.default"

// Exchange is what the API tells of one exchange.
type Exchange struct {
	Name      string         `json:"name"` // "" is the default exchange
	Kind      string         `json:"type"` // direct, topic, fanout, headers, or a plugin's
	Internal  bool           `json:"internal"`
	Durable   bool           `json:"durable"`
	Policy    string         `json:"policy"` // the one in force, "" is none
	Arguments map[string]any `json:"arguments"`
}

// Kinds of a binding's destination.
const (
	ToQueue    = "queue"
	ToExchange = "exchange"
)

// Binding is one binding of an exchange. The types of numbers in Arguments are lost: JSON has
// one kind.
type Binding struct {
	Source          string         `json:"source"`
	Destination     string         `json:"destination"`
	DestinationType string         `json:"destination_type"` // [ToQueue] or [ToExchange]
	RoutingKey      string         `json:"routing_key"`
	Arguments       map[string]any `json:"arguments"`
}

// Exchange returns one exchange, or [ErrNotFound].
func (c *Client) Exchange(ctx context.Context, vhost, name string) (Exchange, error) {
	var out Exchange
	err := c.Get(ctx, &out, "exchanges", vhost, inPath(name))
	return out, err
}

// BindingsOfSource returns the bindings that begin at an exchange. The API has no error for an
// exchange that does not exist: the answer is then empty. Of the default exchange it leaves out
// those that every queue has.
func (c *Client) BindingsOfSource(ctx context.Context, vhost, exchange string) ([]Binding, error) {
	var out []Binding
	err := c.Get(ctx, &out, "exchanges", vhost, inPath(exchange), "bindings", "source")
	return out, err
}

func inPath(exchange string) string {
	if exchange == "" {
		return DefaultExchange
	}
	return exchange
}
