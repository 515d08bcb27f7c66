package topology

import "slices"

func lossRules() []rule {
	return []rule{
		{
			"limit-drops", "a full queue drops confirmed messages", ViewPublisher, false, whole, limitDrops,
		},
		{
			"letters-limited", "a limit of length or age on a dead-letter queue loses dead " +
				"letters", ViewConsumer, false,
			whole, lettersLimited,
		},
		{
			"expires", "a queue is deleted with its messages when nobody uses it", ViewAll, false, whole, expires,
		},
		{
			"transient-queue", "a restart of the broker deletes a queue with its messages", ViewAll, false,
			whole, transientQueue,
		},
		{
			"auto-delete-queue", "a queue is deleted with its messages when its last consumer leaves", ViewAll, false,
			whole, autoDeleteQueue,
		},
		{
			"transient-exchange", "an exchange on the way goes with a restart, or with its last " +
				"binding", ViewAll, false,
			[]Part{PartExchanges, PartArguments, PartBindings},
			transientExchange,
		},
	}
}

var lengths = []string{setLength, setBytes}

// refuses tells whether a full queue refuses what does not fit.
func refuses(kind, overflow string) bool {
	return overflow == rejectPublish || overflow == rejectPublishDLX && kind != typeQuorum
}

func (l *look) overflow(q Queue) string {
	if overflow, ok := l.queueSetting(q, setOverflow).(string); ok {
		return overflow
	}
	return dropHead
}

func limitDrops(l *look) []Finding {
	var out []Finding
	for _, name := range l.workers() {
		q := l.Queues[name]
		if q.Type() == typeStream {
			out = append(out, l.streamDrops(q)...)
			continue
		}
		overflow := l.overflow(q)
		for _, limit := range lengths {
			if value := l.queueSetting(q, limit); value != nil && !refuses(q.Type(), overflow) {
				out = append(out, l.found("queue "+name, "%s %v with overflow %s drops confirmed messages; "+
					"use reject-publish or no limit", limit, value, overflow))
			}
		}
	}
	return out
}

func (l *look) streamDrops(q Queue) []Finding {
	var out []Finding
	for _, limit := range []string{setBytes, setAge} {
		if value := l.queueSetting(q, limit); value != nil {
			out = append(out, l.found("queue "+q.Name, "%s %v on a stream drops its oldest messages, read or not; "+
				"keep more than consumers can be behind, or use a quorum queue", limit, value))
		}
	}
	return out
}

func lettersLimited(l *look) []Finding {
	var out []Finding
	for _, name := range l.letters {
		for _, limit := range []string{setLength, setBytes, setTTL} {
			if value := l.queueSetting(l.Queues[name], limit); value != nil {
				out = append(out, l.found("dead-letter queue "+name,
					"%s %v loses dead letters; remove it, whatever the overflow", limit, value))
			}
		}
	}
	return out
}

// eachQueue are all queues that the rules are about, with how findings name them.
func (l *look) eachQueue(f func(title string, q Queue)) {
	for _, name := range l.targets {
		if !slices.Contains(l.letters, name) {
			f("queue "+name, l.Queues[name])
		}
	}
	for _, name := range l.letters {
		f("dead-letter queue "+name, l.Queues[name])
	}
}

func expires(l *look) []Finding {
	var out []Finding
	l.eachQueue(func(title string, q Queue) {
		if value := l.queueSetting(q, setExpires); value != nil {
			out = append(out, l.found(title, "expires %v deletes the queue with its messages; remove it", value))
		}
	})
	return out
}

func transientQueue(l *look) []Finding {
	var out []Finding
	l.eachQueue(func(title string, q Queue) {
		if !q.Durable {
			out = append(out, l.found(title,
				"is transient, so that a restart of the broker deletes it with its messages; make it durable"))
		}
	})
	return out
}

func autoDeleteQueue(l *look) []Finding {
	var out []Finding
	l.eachQueue(func(title string, q Queue) {
		switch {
		case q.Exclusive:
			out = append(out, l.found(title, "is exclusive: it goes with its messages when its connection ends; "+
				"declare it without exclusive"))
		case q.AutoDelete:
			out = append(out, l.found(title, "is deleted with its messages when its last consumer leaves; "+
				"declare it without auto_delete"))
		}
	})
	return out
}

// transientExchange looks at the entries, at what is bound behind them and at dead-letter exchanges.
func transientExchange(l *look) []Finding {
	var out []Finding
	for _, name := range l.passed() {
		e, ok := l.Exchanges[name]
		switch {
		case !ok || name == defaultExchange:
		case !e.Durable:
			out = append(out, l.found("exchange "+name,
				"is transient, so that a restart of the broker deletes it with its bindings; make it durable"))
		case e.AutoDelete:
			out = append(out, l.found("exchange "+name,
				"is deleted when its last binding goes; declare it without auto_delete"))
		}
	}
	return out
}

// passed are the exchanges through which messages and dead letters pass.
func (l *look) passed() []string {
	start := slices.Clone(l.entries)
	for _, name := range l.targets {
		if exchange, _, ok := l.Broker.letters(l.Queues[name]); ok && exchange != defaultExchange {
			start = append(start, exchange)
		}
	}
	return l.reached(start)
}
