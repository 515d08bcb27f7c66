package topology

import "slices"

// upgradeLimit is what RabbitMQ 4 gives a quorum queue without a delivery limit.
const upgradeLimit = 20

func deliveryRules() []rule {
	limited := slices.Concat(whole, []Part{PartVersion})
	return []rule{
		{
			"delivery-limit-unlimited", "-1 before RabbitMQ 4 gives up at the first return", ViewConsumer, false,
			limited, deliveryUnlimited,
		},
		{
			"delivery-limit-default", "without a limit a queue has RabbitMQ 4's of 20", ViewConsumer, false,
			limited, deliveryDefault,
		},
		{
			"delivery-limit-low", "crashes use a low limit up for messages that nobody handled", ViewConsumer, true,
			limited, deliveryLow,
		},
	}
}

// eachLimit are the quorum queues with their delivery limits; given is false without one.
func (l *look) eachLimit(f func(title string, q Queue, limit float64, given bool)) {
	l.eachQueue(func(title string, q Queue) {
		if q.Type() != typeQuorum {
			return
		}
		if _, step := l.stepOf(q.Name); step {
			return // nothing is delivered from a step
		}
		limit, given := number(l.queueSetting(q, setDeliveries))
		f(title, q, limit, given)
	})
}

func deliveryUnlimited(l *look) []Finding {
	var out []Finding
	l.eachLimit(func(title string, _ Queue, limit float64, given bool) {
		if given && limit < 0 && l.major() < 4 {
			out = append(out,
				l.found(title, "delivery-limit %v is no limit only from RabbitMQ 4 on: %s gives a message up "+
					"at its first return; set %d", limit, l.Version, DeliveryLimit))
		}
	})
	return out
}

func deliveryDefault(l *look) []Finding {
	var out []Finding
	l.eachLimit(func(title string, _ Queue, _ float64, given bool) {
		if !given && l.major() >= 4 {
			out = append(out,
				l.found(title, "has no delivery-limit, so that RabbitMQ %s gives a message up after %d returns, "+
					"and each end of a process counts for all that it had taken; set %d by a policy",
					l.Version, upgradeLimit, DeliveryLimit))
		}
	})
	return out
}

// deliveryLow is about the plan's own queues: what others want for theirs is their matter.
func deliveryLow(l *look) []Finding {
	var out []Finding
	l.eachLimit(func(title string, q Queue, limit float64, given bool) {
		planned := slices.ContainsFunc(l.want.queues, func(w wantedQueue) bool { return w.Name == q.Name })
		if !planned || !given || limit < 0 || limit >= DeliveryLimit {
			return
		}
		how := "by policy"
		if _, ok := q.Arguments["x-"+setDeliveries]; ok {
			how = "by an argument, which a policy cannot raise: declare the queue anew when it is empty"
		}
		f := l.found(title,
			"delivery-limit is %v, want at least %d (%s): each end of a process counts for all messages "+
				"that it had taken", limit, DeliveryLimit, how)
		f.Have, f.Want = show(limit), show(DeliveryLimit)
		out = append(out, f)
	})
	return out
}
