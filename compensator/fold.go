package compensator

import (
	"github.com/transmsg/transmsg/model"
)

// foldAfter is how many routing keys of one service, exchange and cause are told apart at a
// time, and how many exchanges of one service and cause. With more their rows are told as
// one group: one missing binding with ids in its keys is one thing that needs a person.
const foldAfter = model.MaxAlertNames

// breadth is how much one alert comprises.
type breadth uint8

const (
	oneKey breadth = iota // one routing key of one exchange
	oneExchange
	oneService
)

// group is what one alert is about.
type group struct {
	kind                          model.AlertKind
	service, exchange, routingKey string
	code                          model.CauseCode
	breadth                       breadth // what is folded is empty
}

func groupOf(a *Alert) group {
	return group{
		kind: a.Kind, service: a.Service, exchange: a.Exchange, routingKey: a.RoutingKey, code: a.Code,
	}
}

// widened is the group that comprises g.
func (g group) widened(to breadth) group {
	if to >= oneExchange {
		g.routingKey = ""
	}
	if to >= oneService {
		g.exchange = ""
	}
	g.breadth = max(g.breadth, to)
	return g
}

// folder decides which groups are told as one: those that would be too many in one window,
// counting what was told in windows that are still open.
type folder struct {
	parts map[group]map[group]bool // what each wider group consists of
	whole map[group]bool           // told as one, in a window that is still open
}

func newFolder(open []group) *folder {
	f := &folder{parts: map[group]map[group]bool{}, whole: map[group]bool{}}
	for _, g := range open {
		f.see(g)
	}
	return f
}

// see takes account of a group.
func (f *folder) see(g group) {
	if g.breadth > oneKey {
		f.whole[g] = true
	}
	for to := g.breadth + 1; to <= oneService; to++ {
		wide, part := g.widened(to), g.widened(to-1)
		if f.parts[wide] == nil {
			f.parts[wide] = map[group]bool{}
		}
		f.parts[wide][part] = true
	}
}

// place is the group in which g is told.
func (f *folder) place(g group) group {
	for to := oneService; to > g.breadth; to-- {
		if wide := g.widened(to); f.whole[wide] || len(f.parts[wide]) > foldAfter {
			return wide
		}
	}
	return g
}

// folded is one group on its way to an alert.
type folded struct {
	group           group
	alert           Alert
	keys, exchanges names
	members         []int // positions in what was folded
}

// fold gathers alerts into groups, in their order.
func fold(open []group, alerts []*Alert, groups []group) []*folded {
	f := newFolder(open)
	for _, g := range groups {
		f.see(g)
	}
	index, list := map[group]*folded{}, []*folded(nil)
	for i, a := range alerts {
		g := f.place(groups[i])
		x := index[g]
		if x == nil {
			x = &folded{group: g, alert: *a}
			index[g], list = x, append(list, x)
		} else {
			merge(&x.alert, a)
		}
		x.keys.add(a.RoutingKey, a.RoutingKeys)
		x.exchanges.add(a.Exchange, a.Exchanges)
		x.members = append(x.members, i)
	}
	for _, x := range list {
		x.finish()
	}
	return list
}

// finish names what the alert comprises.
func (x *folded) finish() {
	a := &x.alert
	if x.group.breadth >= oneExchange {
		a.RoutingKey, a.RoutingKeys = x.keys.told()
	}
	if x.group.breadth >= oneService {
		a.Exchange, a.Exchanges = x.exchanges.told()
	}
}

// merge adds what b says to a; the sample stays.
func merge(a, b *Alert) {
	a.Count += b.Count
	if b.First.Before(a.First) {
		a.First = b.First
	}
	if b.Last.After(a.Last) {
		a.Last = b.Last
	}
}

// names collects different names.
type names struct {
	seen  map[string]bool
	first []string
	more  int // not known by name
}

func (n *names) add(name string, folded model.AlertNames) {
	if folded.Count > 0 {
		n.more += folded.Count - 1
		name = folded.Samples[0]
	}
	if n.seen[name] {
		return
	}
	if n.seen == nil {
		n.seen = map[string]bool{}
	}
	n.seen[name] = true
	if len(n.first) < model.MaxAlertNames {
		n.first = append(n.first, name)
	}
}

// told is the name where there is but one, else how many there are.
func (n *names) told() (string, model.AlertNames) {
	if len(n.seen) == 1 && n.more == 0 {
		return n.first[0], model.AlertNames{}
	}
	out := model.AlertNames{Count: len(n.seen) + n.more}
	copy(out.Samples[:], n.first)
	return "", out
}
