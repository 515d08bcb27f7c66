package topologytest

func letters() []Way {
	return []Way{
		{
			Name: "expires-to-nowhere", Rules: []string{"no-dead-letters"},
			Says: "queue others: message-ttl 60000 without a dead-letter exchange drops confirmed messages",
			Break: func(d Definitions, vhost string) {
				d.Queue(vhost, "others", "orders", Object{"x-message-ttl": 60000})
			},
		},
		{
			Name: "dead-letter-exchange-typo", Rules: []string{"dlx-missing", "queue-differs"},
			Says:  "queue orders.all: dead-letter exchange dead-leters is missing",
			Break: func(d Definitions, _ string) { d.Policy("transmsg-work", "dead-letter-exchange", "dead-leters") },
		},
		{
			Name: "dead-letters-unbound", Rules: []string{"dlx-unrouted", "binding-missing"},
			Says:  "queue orders.all: no queue takes what dead-letter exchange dead-letters gets",
			Break: func(d Definitions, _ string) { d.Drop("bindings", Object{"source": "dead-letters"}) },
		},
		{
			Name: "dead-letter-key-to-nowhere", Rules: []string{"dlx-unrouted"},
			Says: `queue others: no queue takes what dead-letter exchange (default) gets with key "gone"`,
			Break: func(d Definitions, vhost string) {
				d.Queue(vhost, "others", "orders",
					Object{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "gone"})
			},
		},
		{
			Name: "at-least-once-off", Rules: []string{"at-least-once-off", "queue-differs"},
			Says:  "queue orders.all: overflow drop-head turns at-least-once dead-lettering off",
			Break: func(d Definitions, _ string) { d.Policy("transmsg-work", "overflow", "drop-head") },
		},
		{
			Name: "step-to-another-queue", Rules: []string{"step-astray", "queue-differs"},
			Says: "queue orders.all.retry.1s: a copy that has waited goes to [shipping.all.0], want orders.all alone",
			Break: func(d Definitions, _ string) {
				d.Argument("queues", "orders.all.retry.1s", "x-dead-letter-routing-key", "shipping.all.0")
			},
		},
	}
}

func flows() []Way {
	return []Way{
		{
			Name: "fanout-copies", Rules: []string{"fanout-copies"},
			Says: "exchange orders: queue others refuses messages when it is full, and orders.all gets one more copy",
			Break: func(d Definitions, vhost string) {
				d.Queue(vhost, "others", "orders", Object{"x-max-length": 2, "x-overflow": "reject-publish"})
			},
		},
		{
			Name: "ttl-cycle", Rules: []string{"ttl-cycle"},
			Says: "queue others: messages that expire go round and are dropped in silence: others -> others.wait " +
				"-> others",
			Break: func(d Definitions, vhost string) {
				round := func(to string) Object {
					return Object{"x-message-ttl": 300, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": to}
				}
				d.Queue(vhost, "others", "orders", round("others.wait"))
				d.Queue(vhost, "others.wait", "amq.direct", round("others"))
			},
		},
		{
			Name: "alternate-exchange", Rules: []string{"alternate-exchange"},
			Says: "exchange orders: an alternate exchange takes what no queue wants",
			Break: func(d Definitions, vhost string) {
				d.AddPolicy(vhost, "catch-all", "^(?!amq\\.)orders$", "exchanges",
					Object{"alternate-exchange": "dead-letters"})
			},
		},
	}
}
