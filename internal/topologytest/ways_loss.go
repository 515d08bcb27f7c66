package topologytest

func losses() []Way {
	return []Way{
		{
			Name: "drops-the-oldest", Rules: []string{"limit-drops"},
			Says: "queue others: max-length 2 with overflow drop-head drops confirmed messages",
			Break: func(d Definitions, vhost string) {
				d.Queue(vhost, "others", "orders", Object{"x-max-length": 2})
			},
		},
		{
			Name: "policy-drops", Rules: []string{"limit-drops", "at-least-once-off", "queue-differs"},
			Says: "queue orders.all: max-length-bytes 9000 with overflow reject-publish-dlx drops confirmed messages",
			Break: func(d Definitions, _ string) {
				d.Policy("transmsg-work", "max-length-bytes", 9000)
				d.Policy("transmsg-work", "overflow", "reject-publish-dlx")
			},
		},
		{
			Name: "letters-limited", Rules: []string{"letters-limited"},
			Says: "dead-letter queue dead-letters: message-ttl 1000 loses dead letters",
			Break: func(d Definitions, vhost string) {
				d.Add("parameters", Object{
					"vhost": vhost, "component": "operator_policy", "name": "old", "value": Object{
						"pattern": "^dead-", "apply-to": "queues", "priority": 0,
						"definition": Object{"message-ttl": 1000},
					},
				})
			},
		},
		{
			Name: "expires", Rules: []string{"expires"},
			Says: "queue others: expires 60000 deletes the queue with its messages",
			Break: func(d Definitions, vhost string) {
				d.Queue(vhost, "others", "orders", Object{"x-expires": 60000})
			},
		},
	}
}

// fleeting are queues and exchanges that go by themselves.
func fleeting() []Way {
	return []Way{
		{
			Name: "transient-behind-two", Rules: []string{"transient-queue"}, Before: 5,
			Says: "queue others: is transient, so that a restart of the broker deletes it",
			Break: func(d Definitions, vhost string) {
				d.Exchange(vhost, "near", "orders")
				d.Exchange(vhost, "far", "near")
				d.Bind(vhost, "far", "near", "exchange") // a circle
				d.Queue(vhost, "others", "far", Object{})
				d.Set("queues", Object{"name": "others"}, Object{"durable": false})
			},
		},
		{
			Name: "auto-delete", Rules: []string{"auto-delete-queue"},
			Says: "queue others: is deleted with its messages when its last consumer leaves",
			Break: func(d Definitions, vhost string) {
				d.Queue(vhost, "others", "orders", Object{})
				d.Set("queues", Object{"name": "others"}, Object{"auto_delete": true})
			},
		},
		{
			Name: "transient-exchange", Rules: []string{"transient-exchange"},
			Says: "exchange near: is transient, so that a restart of the broker deletes it with its bindings",
			Break: func(d Definitions, vhost string) {
				d.Exchange(vhost, "near", "orders")
				d.Set("exchanges", Object{"name": "near"}, Object{"durable": false})
				d.Queue(vhost, "others", "near", Object{})
			},
		},
	}
}

func deliveries() []Way {
	return []Way{
		{
			Name: "unlimited-too-early", Rules: []string{"delivery-limit-unlimited"}, Before: 4,
			Says: "queue orders.all: delivery-limit -1 is no limit only from RabbitMQ 4 on",
			// A policy with -1 is refused there, an argument is not.
			Break: func(d Definitions, _ string) { d.Argument("queues", "orders.all", "x-delivery-limit", -1) },
		},
		{
			Name: "default-of-an-upgrade", Rules: []string{"delivery-limit-default"}, Since: 4,
			Says:  "queue orders.all: has no delivery-limit, so that RabbitMQ 4",
			Break: func(d Definitions, _ string) { d.Policy("transmsg-work", "delivery-limit", nil) },
		},
		{
			Name: "delivery-limit-20", Rules: []string{"delivery-limit-low"},
			Says: "queue orders.all: delivery-limit is 20, want at least 1000 (by an argument",
			Break: func(d Definitions, _ string) {
				d.Argument("queues", "orders.all", "x-delivery-limit", 20)
			},
		},
	}
}
