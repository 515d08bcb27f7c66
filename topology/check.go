package topology

import (
	"fmt"
	"maps"
	"slices"
)

// rule is one thing that is looked for.
type rule struct {
	name  string
	about string
	view  View
	// planned marks a rule about what a plan asks for.
	planned bool
	// needs are the parts of the broker without which nothing can be said.
	needs []Part
	find  func(*look) []Finding
}

// look is what rules look at.
type look struct {
	*Broker
	plan    *Plan
	want    wanted
	entries []string // the exchanges that publishers write to
	targets []string // the queues that a published message can end in
	letters []string // the queues that dead letters of those end in for good
	view    View
	notes   []Unchecked // what one rule could not judge of one object
	rule    string      // the name of the rule at work
}

// whole are the parts that the rules about loss need.
var whole = []Part{PartExchanges, PartQueues, PartArguments, PartBindings, PartPolicies, PartOperatorPolicies}

func allRules() []rule {
	return slices.Concat(plannedRules(), rightRules(), lossRules(), deliveryRules(), letterRules(), flowRules())
}

// Rule is the name of a rule and one line about it.
type Rule struct{ Name, About string }

// Rules are all rules that [Check] has, in the order in which they are applied.
func Rules() []Rule {
	var out []Rule
	for _, r := range allRules() {
		out = append(out, Rule{r.name, r.about})
	}
	return out
}

// Check applies the rules of the view to a broker. With a plan it also says what the plan asks for and the broker
// lacks, and the exchanges and queues of the plan are what publishers and consumers use; without one, plan nil, all
// exchanges and queues are. It changes neither, and is safe for concurrent use of different brokers.
func Check(b *Broker, plan *Plan, view View) Report {
	l := newLook(b, plan, view)
	var report Report
	for _, r := range allRules() {
		switch {
		case r.view&view == 0 || r.planned && plan == nil:
			continue
		case !b.HasVHost && r.name != vhostMissingName:
			continue // without it all else is missing too
		}
		if why := l.missing(r.needs); why != "" {
			report.Unseen = append(report.Unseen, Unchecked{r.name, why})
			continue
		}
		l.rule = r.name
		report.Findings = append(report.Findings, r.find(l)...)
	}
	report.Unseen = append(report.Unseen, l.notes...)
	report.sort()
	return report
}

func newLook(b *Broker, plan *Plan, view View) *look {
	copied := *b
	copied.index()
	l := &look{Broker: &copied, plan: plan, view: view}
	if plan != nil {
		l.want = plan.wanted()
	}
	l.entries = l.entryExchanges()
	l.targets = l.targetQueues()
	l.letters = l.letterQueues()
	return l
}

// missing says why a rule cannot be applied; "" when it can.
func (l *look) missing(needs []Part) string {
	for _, part := range needs {
		if why, ok := l.Unseen[part]; ok {
			return fmt.Sprintf("%s not seen: %s", part, why)
		}
		if part == PartPolicies {
			if err := l.patternErrors(); err != nil {
				return err.Error()
			}
		}
	}
	return ""
}

// note says that the rule at work could not judge an object.
func (l *look) note(why string) { l.notes = append(l.notes, Unchecked{l.rule, why}) }

// entryExchanges are the plan's, or all that somebody made or bound.
func (l *look) entryExchanges() []string {
	if l.plan != nil {
		return l.plan.exchanges()
	}
	var out []string
	for name := range l.Exchanges {
		if name != defaultExchange && (len(l.from[name]) > 0 || !isBuiltIn(name)) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func isBuiltIn(name string) bool {
	return slices.ContainsFunc(builtIn, func(e Exchange) bool { return e.Name == name })
}

// targetQueues are bound behind the entries, by us or by others, and what these send on by themselves ends in; with a
// plan also its own work queues and steps, without one all queues.
func (l *look) targetQueues() []string {
	more := l.bound(l.entries)
	for _, q := range l.want.queues {
		if q.purpose != forLetters {
			more = append(more, q.Name)
		}
	}
	if l.plan == nil {
		more = slices.Collect(maps.Keys(l.Queues))
	}
	names := map[string]bool{}
	for ; len(more) > 0; more = more[1:] {
		if names[more[0]] {
			continue
		}
		names[more[0]] = true
		_, onward, _ := l.Broker.letters(l.Queues[more[0]])
		more = append(more, onward...)
	}
	return l.known(names)
}

// letterQueues are the queues in which dead letters of the targets stay: those that do not send them on by
// themselves.
func (l *look) letterQueues() []string {
	names := map[string]bool{}
	for _, name := range l.targets {
		_, queues, _ := l.Broker.letters(l.Queues[name])
		for _, to := range queues {
			if _, onward, _ := l.Broker.letters(l.Queues[to]); len(onward) == 0 && !l.backTo(name, to) {
				names[to] = true
			}
		}
	}
	if l.plan != nil {
		names[l.plan.DeadLetters.Queue] = true
	}
	return l.known(names)
}

// backTo tells whether a dead letter from one queue comes back to where messages are published to: a ladder's last
// leg. Without a plan an exchange that takes dead letters is taken for none that is published to.
func (l *look) backTo(from, to string) bool {
	if work, step := l.stepOf(from); step && work == to {
		return true
	}
	front := l.entries
	if l.plan == nil {
		front = slices.DeleteFunc(slices.Clone(front), func(exchange string) bool { return l.takesLetters(exchange) })
	}
	return slices.Contains(l.bound(front), to)
}

func (l *look) takesLetters(exchange string) bool {
	for _, q := range l.Queues {
		if to, _, ok := l.Broker.letters(q); ok && to == exchange {
			return true
		}
	}
	return false
}

// workers are the targets that are no dead-letter queues.
func (l *look) workers() []string {
	var out []string
	for _, name := range l.targets {
		if !slices.Contains(l.letters, name) {
			out = append(out, name)
		}
	}
	return out
}

// found makes a finding of the rule at work.
func (l *look) found(object, format string, args ...any) Finding {
	return Finding{Rule: l.rule, Object: object, Text: fmt.Sprintf(format, args...)}
}

// differs makes a finding of two values.
func (l *look) differs(object, what string, have, want any) Finding {
	f := l.found(object, "%s is %s, want %s", what, show(have), show(want))
	f.Have, f.Want = show(have), show(want)
	return f
}
