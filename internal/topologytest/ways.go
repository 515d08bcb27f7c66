package topologytest

// TopologyFile is the good topology: a work queue with a ladder, and one with partitions.
const TopologyFile = `
vhost: shop
routes:
  - {exchange: orders, queue: orders.all}
  - {exchange: shipping, queue: shipping.all}
queues:
  - {name: orders.all, retry: [1s, 30s]}
  - {name: shipping.all, partitions: 2}
users:
  publisher: {name: shop-publisher, password-file: publisher}
  consumer: {name: shop-consumer, password-file: consumer}
  compensator: {name: shop-compensator, password-file: compensator}
  collector: {name: shop-collector, password-file: collector}
`

// VHost is the file's virtual host; Elsewhere is one that is not.
const (
	VHost     = "shop"
	Elsewhere = "elsewhere"
)

// Users are the logins of the file with their passwords; each password-file has the name of its role.
var Users = map[string]string{
	"publisher": "of the publisher", "consumer": "of the consumer",
	"compensator": "of the compensator", "collector": "of the collector",
}

// Way is one way to break the good topology.
type Way struct {
	// Name is the fixture's.
	Name string
	// Rules are the names of the rules that must find something, and no others may.
	Rules []string
	// Says is in the line of a finding.
	Says string
	// Since is the first major version of RabbitMQ that is broken so, Before the first that is not; 0 is any.
	Since, Before int
	// Break edits the definitions of the good topology in a virtual host.
	Break func(d Definitions, vhost string)
}

// On tells whether the way breaks a broker of this major version.
func (w Way) On(major int) bool { return major >= w.Since && (w.Before == 0 || major < w.Before) }

// Ways are all of them, of each rule at least one.
func Ways() []Way {
	out := missing()
	out = append(out, rights()...)
	out = append(out, losses()...)
	out = append(out, fleeting()...)
	out = append(out, deliveries()...)
	out = append(out, letters()...)
	return append(out, flows()...)
}

func missing() []Way {
	return []Way{
		{
			Name: "vhost-missing", Rules: []string{"vhost-missing"},
			Says:  "virtual host shop is missing",
			Break: func(d Definitions, vhost string) { d.move(vhost, Elsewhere) },
		},
		{
			Name: "exchange-missing", Rules: []string{"exchange-missing", "binding-missing"},
			Says: "exchange orders is missing",
			Break: func(d Definitions, vhost string) {
				d.Drop("exchanges", Object{"name": "orders"})
				d.Drop("bindings", Object{"source": "orders"})
			},
		},
		{
			Name: "exchange-differs", Rules: []string{"exchange-differs"},
			Says: `exchange orders: type is "fanout", want "topic"`,
			Break: func(d Definitions, _ string) {
				d.Set("exchanges", Object{"name": "orders"}, Object{"type": "fanout"})
			},
		},
		{
			Name: "queue-missing", Rules: []string{"queue-missing", "binding-missing"},
			Says: "queue shipping.all.1 is missing",
			Break: func(d Definitions, _ string) {
				d.Drop("queues", Object{"name": "shipping.all.1"})
				d.Drop("bindings", Object{"destination": "shipping.all.1"})
			},
		},
		{
			Name: "ladder-missing", Rules: []string{"ladder-missing"},
			Says:  "queue orders.all.retry.30s is missing",
			Break: func(d Definitions, _ string) { d.Drop("queues", Object{"name": "orders.all.retry.30s"}) },
		},
		{
			Name: "queue-differs", Rules: []string{"queue-differs"},
			Says:  `queue orders.all: queue-type is "classic", want "quorum" (by argument)`,
			Break: func(d Definitions, _ string) { d.Argument("queues", "orders.all", "x-queue-type", "classic") },
		},
		{
			Name: "step-with-other-ttl", Rules: []string{"queue-differs"},
			Says: "queue orders.all.retry.30s: message-ttl is 301, want 30000 (by argument)",
			Break: func(d Definitions, _ string) {
				d.Argument("queues", "orders.all.retry.30s", "x-message-ttl", 301)
			},
		},
		{
			Name: "binding-missing", Rules: []string{"binding-missing"},
			Says:  "binding orders -> orders.all by # is missing",
			Break: func(d Definitions, _ string) { d.Drop("bindings", Object{"destination": "orders.all"}) },
		},
	}
}

func rights() []Way {
	return []Way{
		{
			Name: "user-missing", Rules: []string{"user-missing", "right-missing"},
			Says: "user shop-collector is missing",
			Break: func(d Definitions, _ string) {
				d.Drop("users", Object{"name": "shop-collector"})
				d.Drop("permissions", Object{"user": "shop-collector"})
			},
		},
		{
			Name: "user-with-tag", Rules: []string{"user-differs"},
			Says: "user shop-consumer: tags are [administrator], want none",
			Break: func(d Definitions, _ string) {
				d.Set("users", Object{"name": "shop-consumer"}, Object{"tags": []any{"administrator"}})
			},
		},
		{
			Name: "consumer-without-ladder", Rules: []string{"right-missing"},
			Says: `permission shop-consumer: write is "^(dead-letters)$", which does not match amq.default`,
			Break: func(d Definitions, _ string) {
				d.Set("permissions", Object{"user": "shop-consumer"}, Object{"write": "^(dead-letters)$"})
			},
		},
		{
			Name: "publisher-may-all", Rules: []string{"right-excess"},
			Says: `permission shop-publisher: configure is ".*", want "^$"`,
			Break: func(d Definitions, _ string) {
				d.Set("permissions", Object{"user": "shop-publisher"}, Object{"configure": ".*"})
			},
		},
		{
			Name: "topic-permission", Rules: []string{"topic-permission"},
			Says: "user shop-publisher: a topic permission on orders can forbid single routing keys",
			Break: func(d Definitions, vhost string) {
				d.Add("topic_permissions", Object{
					"vhost": vhost, "user": "shop-publisher", "exchange": "orders", "write": "^a", "read": "^a",
				})
			},
		},
	}
}

// move puts all into another virtual host.
func (d Definitions) move(from, to string) {
	for kind := range d {
		d.Each(kind, Object{"vhost": from}, func(o Object) { o["vhost"] = to })
	}
	d.Each("vhosts", Object{"name": from}, func(o Object) { o["name"] = to })
}
