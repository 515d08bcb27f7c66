package topology

import "slices"

func letterRules() []rule {
	limited := slices.Concat(whole, []Part{PartVersion})
	return []rule{
		{
			"no-dead-letters", "what expires or is returned too often goes nowhere", ViewConsumer, false,
			limited, noDeadLetters,
		},
		{
			"dlx-missing", "a queue's dead-letter exchange is not there", ViewConsumer, false, whole, dlxMissing,
		},
		{
			"dlx-unrouted", "no queue takes what a dead-letter exchange gets", ViewConsumer, false, whole, dlxUnrouted,
		},
		{
			"at-least-once-off", "an overflow turns dead-lettering at least once off", ViewConsumer, false,
			whole, atLeastOnceOff,
		},
		{
			"step-astray", "a step of a ladder does not lead back to its work " +
				"queue", ViewConsumer, false, whole, stepAstray,
		},
	}
}

// ending are the limits by which a queue gives messages up.
func (l *look) ending(q Queue) map[string]any {
	out := map[string]any{}
	if ttl := l.queueSetting(q, setTTL); ttl != nil {
		out[setTTL] = ttl
	}
	if q.Type() != typeQuorum {
		return out
	}
	limit := l.queueSetting(q, setDeliveries)
	if limit == nil && l.major() >= 4 {
		limit = int64(upgradeLimit)
	}
	if n, ok := number(limit); ok && (n >= 0 || l.major() < 4) {
		out[setDeliveries] = limit
	}
	return out
}

func noDeadLetters(l *look) []Finding {
	var out []Finding
	for _, name := range l.workers() {
		q := l.Queues[name]
		if q.Type() == typeStream {
			continue
		}
		if _, _, ok := l.Broker.letters(q); ok {
			continue
		}
		limits := l.ending(q)
		for _, limit := range keysOf(limits, nil) {
			out = append(out, l.found("queue "+name, "%s %v without a dead-letter exchange drops confirmed messages; "+
				"name one, or remove the limit", limit, limits[limit]))
		}
	}
	return out
}

// effect says what a queue loses without dead letters.
func (l *look) effect(q Queue) string {
	limits := l.ending(q)
	text := "what a consumer rejects is lost"
	for _, limit := range keysOf(limits, nil) {
		text += ", and " + limit + " " + show(limits[limit]) + " drops confirmed messages"
	}
	return text
}

func dlxMissing(l *look) []Finding {
	var out []Finding
	l.eachQueue(func(title string, q Queue) {
		exchange, _, ok := l.Broker.letters(q)
		if _, there := l.Exchanges[exchange]; ok && !there && exchange != defaultExchange {
			out = append(out, l.found(title, "dead-letter exchange %s is missing: %s", exchange, l.effect(q)))
		}
	})
	return out
}

func dlxUnrouted(l *look) []Finding {
	var out []Finding
	l.eachQueue(func(title string, q Queue) {
		exchange, queues, ok := l.Broker.letters(q)
		_, there := l.Exchanges[exchange]
		if !ok || len(queues) > 0 || !there && exchange != defaultExchange {
			return
		}
		name := exchange
		if name == defaultExchange {
			name = "(default)"
		}
		key := ""
		if k, given := l.queueSetting(q, setDeadKey).(string); given {
			key = " with key " + show(k)
		}
		out = append(out,
			l.found(title, "no queue takes what dead-letter exchange %s gets%s: %s", name, key, l.effect(q)))
	})
	return out
}

func atLeastOnceOff(l *look) []Finding {
	var out []Finding
	l.eachQueue(func(title string, q Queue) {
		overflow := l.overflow(q)
		if q.Type() == typeQuorum && overflow != rejectPublish && l.queueSetting(q, setDeadStrategy) == atLeastOnce {
			out = append(out,
				l.found(title, "overflow %s turns at-least-once dead-lettering off; use reject-publish", overflow))
		}
	})
	return out
}

// stepAstray knows a step by its name, also one of a ladder that no plan asks for any more.
func stepAstray(l *look) []Finding {
	var out []Finding
	for name, q := range l.Queues {
		work, ok := l.stepOf(name)
		if !ok || l.plan != nil && !slices.Contains(l.plan.workQueues(), work) {
			continue
		}
		object := "queue " + name
		_, queues, _ := l.Broker.letters(q)
		switch {
		case !slices.Equal(queues, []string{work}):
			out = append(out, l.found(object, "a copy that has waited goes to %s, want %s alone", show(queues), work))
		case l.queueSetting(q, setTTL) == nil:
			out = append(out, l.found(object, "has no message-ttl: copies stay in it for ever"))
		case l.queueSetting(q, setDeadStrategy) != atLeastOnce || q.Type() != typeQuorum:
			out = append(out, l.found(object, "a copy is lost when %s is full or away: want a quorum queue with "+
				"dead-letter-strategy at-least-once", work))
		}
	}
	return out
}
