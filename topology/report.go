package topology

import (
	"cmp"
	"slices"
	"strings"
)

// View is whose messages a check is about.
type View int

// The views. The zero value is none.
const (
	// ViewPublisher is what becomes of a published message until it is in a queue, and there until it is taken.
	ViewPublisher View = 1 << iota
	// ViewConsumer is what becomes of it from there on: ladders, limits of deliveries, dead letters.
	ViewConsumer
	// ViewAll is both.
	ViewAll = ViewPublisher | ViewConsumer
)

// Finding is one thing that is wrong.
type Finding struct {
	// Rule is the name of the rule that found it; [Rules] has them all.
	Rule string `json:"rule"`
	// Object is what it was found at, such as "queue orders.all".
	Object string `json:"object"`
	// Text says what is wrong, what it leads to and what to do.
	Text string `json:"text"`
	// Have and Want are what is there and what the topology file asks for, "" where nothing is compared.
	Have string `json:"have"`
	Want string `json:"want"`
}

// String is the finding in one line.
func (f Finding) String() string {
	if strings.HasPrefix(f.Text, "missing") {
		return f.Object + " is " + f.Text
	}
	return f.Object + ": " + f.Text
}

// Unchecked is a rule that could not be applied.
type Unchecked struct {
	Rule string `json:"rule"`
	// Why says what was not seen, and for what reason.
	Why string `json:"why"`
}

// Report is what a check says.
type Report struct {
	Findings []Finding   `json:"findings"`
	Unseen   []Unchecked `json:"not_checked"`
}

// OK reports whether everything was seen and nothing is wrong.
func (r Report) OK() bool { return len(r.Findings) == 0 && len(r.Unseen) == 0 }

// sort orders a report by object, so that what is wrong with one queue stands together.
func (r *Report) sort() {
	slices.SortFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Text, b.Text))
	})
	r.Findings = slices.Compact(r.Findings)
	slices.SortFunc(r.Unseen, func(a, b Unchecked) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Why, b.Why))
	})
	r.Unseen = slices.Compact(r.Unseen)
}
