package topology

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const vhostMissingName = "vhost-missing"

func plannedRules() []rule {
	return []rule{
		{vhostMissingName, "the virtual host is not there", ViewAll, false, nil, vhostMissing},
		{
			"exchange-missing", "an exchange of the topology file is not there", ViewAll, true,
			[]Part{PartExchanges},
			exchangeMissing,
		},
		{
			"exchange-differs", "an exchange is of another type or has other arguments", ViewPublisher, true,
			[]Part{PartExchanges, PartArguments},
			exchangeDiffers,
		},
		{"queue-missing", "a queue of the topology file is not there", ViewAll, true, []Part{PartQueues}, queueMissing},
		{
			"ladder-missing", "a step of a work queue's retry ladder is not there", ViewConsumer, true,
			[]Part{PartQueues},
			ladderMissing,
		},
		{
			"queue-differs", "a queue has other settings, by arguments and policies together", ViewConsumer, true,
			[]Part{PartQueues, PartArguments, PartPolicies, PartOperatorPolicies},
			queueDiffers,
		},
		{
			"binding-missing", "a binding of the topology file is not there", ViewAll, true,
			[]Part{PartBindings},
			bindingMissing,
		},
	}
}

func vhostMissing(l *look) []Finding {
	if l.HasVHost {
		return nil
	}
	return []Finding{l.found("virtual host "+l.VHost, "missing")}
}

// seen tells whether an exchange of the plan is of the view.
func (l *look) seesExchange(name string) bool {
	return l.view == ViewAll || (name == l.plan.DeadLetters.Exchange) == (l.view == ViewConsumer)
}

// isHidden tells whether nobody can say that the object is missing, and notes it.
func (l *look) isHidden(object string) bool {
	why, hidden := l.hidden[object]
	if hidden {
		l.note(object + ": " + why)
	}
	return hidden
}

func exchangeMissing(l *look) []Finding {
	var out []Finding
	for _, want := range l.want.exchanges {
		if _, ok := l.Exchanges[want.Name]; !ok && l.seesExchange(want.Name) && !l.isHidden("exchange "+want.Name) {
			out = append(out, l.found("exchange "+want.Name, "missing"))
		}
	}
	return out
}

func exchangeDiffers(l *look) []Finding {
	var out []Finding
	for _, want := range l.want.exchanges {
		have, ok := l.Exchanges[want.Name]
		if !ok {
			continue
		}
		object := "exchange " + want.Name
		for _, field := range []struct {
			name       string
			have, want any
		}{
			{"type", have.Type, want.Type},
			{"durable", have.Durable, want.Durable},
			{"auto_delete", have.AutoDelete, want.AutoDelete},
			{"internal", have.Internal, want.Internal},
		} {
			if field.have != field.want {
				out = append(out, l.differs(object, field.name, field.have, field.want))
			}
		}
		for _, key := range keysOf(want.Arguments, have.Arguments) {
			if key != setAlternate && !same(have.Arguments[key],
				want.Arguments[key]) { // that one has a rule of its own
				out = append(out, l.differs(object, "argument "+key, have.Arguments[key], want.Arguments[key]))
			}
		}
	}
	return out
}

// keysOf are the keys of two maps, sorted.
func keysOf(a, b map[string]any) []string {
	all := map[string]bool{}
	for k := range a {
		all[k] = true
	}
	for k := range b {
		all[k] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func queueMissing(l *look) []Finding {
	return l.missingQueues(func(of purpose) bool { return of != forStep })
}

func ladderMissing(l *look) []Finding {
	return l.missingQueues(func(of purpose) bool { return of == forStep })
}

func (l *look) missingQueues(of func(purpose) bool) []Finding {
	var out []Finding
	for _, want := range l.want.queues {
		seen := l.view&ViewConsumer != 0 || want.purpose == forWork
		if _, ok := l.Queues[want.Name]; !ok && seen && of(want.purpose) && !l.isHidden("queue "+want.Name) {
			out = append(out, l.found(want.title(), "missing"))
		}
	}
	return out
}

// queueDiffers compares what is in force, not where it comes from: a setting that an argument gives is as good as one
// by a policy. What only an argument says is compared as it stands.
func queueDiffers(l *look) []Finding {
	var out []Finding
	for _, want := range l.want.queues {
		have, ok := l.Queues[want.Name]
		if !ok {
			continue
		}
		if have.Durable != want.Durable {
			out = append(out, l.differs(want.title(), "durable", have.Durable, want.Durable))
		}
		if have.AutoDelete != want.AutoDelete {
			out = append(out, l.differs(want.title(), "auto_delete", have.AutoDelete, want.AutoDelete))
		}
		out = append(out, l.settingsDiffer(want, have)...)
	}
	return out
}

func (l *look) settingsDiffer(want wantedQueue, have Queue) []Finding {
	var out []Finding
	wish := maps.Clone(want.policy)
	if wish == nil {
		wish = map[string]any{}
	}
	for name, value := range want.Arguments {
		wish[strings.TrimPrefix(name, "x-")] = value
	}
	given := map[string]any{}
	for name := range have.Arguments {
		given[strings.TrimPrefix(name, "x-")] = true
	}
	for _, key := range keysOf(wish, given) {
		got := l.queueSetting(have, key)
		if key == "queue-type" {
			got = have.Type()
		}
		if same(got, wish[key]) || key == setDeliveries && want.purpose != forStep {
			continue // the deliveries have rules of their own
		}
		by := "by policy"
		if _, ok := have.Arguments["x-"+key]; ok {
			by = "by argument"
		}
		f := l.differs(want.title(), key, got, wish[key])
		if got != nil {
			f.Text += fmt.Sprintf(" (%s)", by)
		}
		out = append(out, f)
	}
	return out
}

func bindingMissing(l *look) []Finding {
	var out []Finding
	for _, want := range l.want.bindings {
		there := slices.ContainsFunc(l.Bindings, func(have Binding) bool {
			return have.Source == want.Source && have.Destination == want.Destination &&
				have.ToExchange == want.ToExchange && have.Key == want.Key && len(have.Arguments) == 0
		})
		if !there && l.seesExchange(want.Source) {
			key := want.Key
			if key == "" {
				key = "any key"
			}
			out = append(out, l.found(
				fmt.Sprintf("binding %s -> %s by %s", want.Source, want.Destination, key), "missing"))
		}
	}
	return out
}
