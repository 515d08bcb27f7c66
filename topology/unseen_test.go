package topology_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/internal/topologytest"
	"github.com/transmsg/transmsg/topology"
)

// What nobody saw is not checked, and never passed: of each part, each rule that needs it says so on the broken
// export that it would find.
func TestWhatIsUnseenIsNotChecked(t *testing.T) {
	t.Parallel()
	parts := []topology.Part{
		topology.PartVersion, topology.PartExchanges, topology.PartQueues, topology.PartArguments,
		topology.PartBindings,
		topology.PartPolicies, topology.PartOperatorPolicies, topology.PartUsers, topology.PartPermissions,
		topology.PartTopicPermissions,
	}
	for _, part := range parts {
		b := fixture(t, goodName)
		b.Unseen = map[topology.Part]string{part: "nobody looked"}
		r := topology.Check(b, goodPlan(t), topology.ViewAll)
		if r.OK() || len(r.Unseen) == 0 || len(r.Findings) > 0 {
			t.Errorf("without %s:\n%s", part, lines(r))
		}
	}
	for _, way := range topologytest.Ways() {
		b := fixture(t, way.Name)
		b.Unseen = map[topology.Part]string{}
		for _, part := range parts {
			b.Unseen[part] = "nobody looked"
		}
		r := topology.Check(b, goodPlan(t), topology.ViewAll)
		for _, rule := range way.Rules {
			unchecked := slices.ContainsFunc(r.Unseen, func(u topology.Unchecked) bool { return u.Rule == rule })
			if !unchecked && !slices.Contains(names(r), rule) {
				t.Errorf("%s: %s is neither found nor said not to be checked", way.Name, rule)
			}
		}
	}
}

func TestPatternThatNobodyCanTellIsNotChecked(t *testing.T) {
	t.Parallel()
	b := fixture(t, goodName)
	b.Policies = append(b.Policies, topology.Policy{Name: "odd", Pattern: `a(?<=b)`, Definition: object{}})
	r := topology.Check(b, goodPlan(t), topology.ViewAll)
	if !strings.Contains(lines(r), "not checked: limit-drops: policy odd: pattern a(?<=b)") {
		t.Error(lines(r))
	}
}

func TestExportOfOneVirtualHost(t *testing.T) {
	t.Parallel()
	b := edited(t, func(d edits) {
		for _, key := range []string{"vhosts", "users", "permissions", "topic_permissions"} {
			delete(d, key)
		}
		for kind := range d {
			d.Each(kind, nil, func(o object) { delete(o, "vhost") })
		}
	})
	r := topology.Check(b, goodPlan(t), topology.ViewAll)
	var rules []string
	for _, u := range r.Unseen {
		rules = append(rules, u.Rule)
	}
	want := []string{"right-excess", "right-missing", "topic-permission", "user-differs", "user-missing"}
	if len(r.Findings) > 0 || !slices.Equal(rules, want) {
		t.Errorf("not checked: %v, want %v\n%s", rules, want, lines(r))
	}
	for text, want := range map[string]string{
		"":                 "read definitions: EOF",
		"{}":               `no key "queues"`,
		`{"queues":{}}`:    "cannot unmarshal object",
		`{"queues":[]} {}`: "more than one JSON value",
		`{"queues":[],"parameters":[{"component":"operator_policy","value":3}]}`: "operator policy",
	} {
		if _, err := topology.ReadDefinitions([]byte(text), "/"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// asked is a broker that knows all of a topology but the names given.
type asked struct{ absent []string }

func (a asked) Exchange(_ context.Context, name string) (bool, error) {
	if slices.Contains(a.absent, "hidden "+name) {
		return false, fmt.Errorf("%w: 403", topology.ErrHidden)
	}
	return !slices.Contains(a.absent, "exchange "+name), nil
}

func (a asked) Queue(_ context.Context, name string) (bool, error) {
	if slices.Contains(a.absent, "broken "+name) {
		return false, errors.New("connection reset")
	}
	return !slices.Contains(a.absent, "queue "+name), nil
}

func (a asked) Version() string { return "3.10.8" }

func TestPassiveDeclaresTellWhatExists(t *testing.T) {
	t.Parallel()
	b, err := topology.ReadPassive(t.Context(), asked{[]string{"exchange orders", "queue " +
		"orders.all.retry.1s"}}, goodPlan(t))
	if err != nil {
		t.Fatal(err)
	}
	r := topology.Check(b, goodPlan(t), topology.ViewAll)
	if got := names(r); !slices.Equal(got, []string{"exchange-missing", "ladder-missing"}) || len(r.Unseen) == 0 {
		t.Errorf("found by %v\n%s", got, lines(r))
	}
	// What the broker does not tell is neither there nor missing.
	b, err = topology.ReadPassive(t.Context(), asked{[]string{"hidden orders", "queue dead-letters"}}, goodPlan(t))
	if err != nil {
		t.Fatal(err)
	}
	r = topology.Check(b, goodPlan(t), topology.ViewAll)
	const hidden = "not checked: exchange-missing: exchange orders: the broker does not tell this login: 403"
	if got := names(r); !slices.Equal(got, []string{"queue-missing"}) || !strings.Contains(lines(r), hidden) {
		t.Errorf("with a hidden exchange:\n%s", lines(r))
	}
	_, err = topology.ReadPassive(t.Context(), asked{[]string{"broken dead-letters"}}, goodPlan(t))
	if err == nil || !strings.Contains(err.Error(), "queue dead-letters: connection reset") {
		t.Errorf("a broker that does not answer: %v", err)
	}
}

// Each view has the rules of its side, and both together all.
func TestViews(t *testing.T) {
	t.Parallel()
	only := map[string]topology.View{
		"drops-the-oldest": topology.ViewPublisher, "alternate-exchange": topology.ViewPublisher,
		"publisher-may-all": topology.ViewPublisher, "exchange-missing": topology.ViewPublisher,
		"ladder-missing": topology.ViewConsumer, "letters-limited": topology.ViewConsumer,
		"consumer-without-ladder": topology.ViewConsumer, "ttl-cycle": topology.ViewConsumer,
		"queue-missing": topology.ViewAll,
	}
	for _, name := range slices.Sorted(maps.Keys(only)) {
		for _, view := range []topology.View{topology.ViewPublisher, topology.ViewConsumer} {
			r := topology.Check(fixture(t, name), goodPlan(t), view)
			if found := len(r.Findings) > 0; found != (only[name]&view != 0) {
				t.Errorf("%s in view %d: found %v\n%s", name, view, found, lines(r))
			}
		}
	}
}

// Without a topology file the dangers are found all the same.
func TestDangersAreFoundWithoutAPlan(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"drops-the-oldest", "letters-limited", "expires", "transient-behind-two", "auto-delete", "transient-exchange",
		"unlimited-too-early", "default-of-an-upgrade", "expires-to-nowhere", "dead-letter-exchange-typo",
		"dead-letters-unbound", "at-least-once-off", "step-to-another-queue", "fanout-copies", "ttl-cycle",
		"alternate-exchange",
	} {
		i := slices.IndexFunc(topologytest.Ways(), func(w topologytest.Way) bool { return w.Name == name })
		way := topologytest.Ways()[i]
		if r := topology.Check(fixture(t, name), nil, topology.ViewAll); !strings.Contains(lines(r), way.Says) {
			t.Errorf("%s: no finding says %q\n%s", name, way.Says, lines(r))
		}
	}
}

// answers is a management API by the path of its questions; what it does not have it refuses.
type answers map[string]string

func (a answers) Get(_ context.Context, out any, path ...string) error {
	text, ok := a[strings.Join(path, "/")]
	if !ok {
		return errors.New("401: the user may not see this")
	}
	return json.Unmarshal([]byte(text), out)
}

// A user with fewer rights sees less: what it does not see is not checked.
func TestAPIThatRefusesIsNotChecked(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/" + goodName + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var export map[string]json.RawMessage
	if err := json.Unmarshal(text, &export); err != nil {
		t.Fatal(err)
	}
	all := answers{
		"overview": `{"rabbitmq_version":"3.10.8"}`, "operator-policies/shop": "[]",
		"exchanges/shop": string(export["exchanges"]), "queues/shop": string(export["queues"]),
		"bindings/shop": string(export["bindings"]), "policies/shop": string(export["policies"]),
		"users": string(export["users"]), "vhosts/shop/permissions": string(export["permissions"]),
		"vhosts/shop/topic-permissions": "[]",
	}
	read := func(a answers) topology.Report {
		b, err := topology.ReadAPI(t.Context(), a, topologytest.VHost)
		if err != nil {
			t.Fatal(err)
		}
		return topology.Check(b, goodPlan(t), topology.ViewAll)
	}
	if r := read(all); !r.OK() {
		t.Errorf("with all answers:\n%s", lines(r))
	}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		less := maps.Clone(all)
		delete(less, path)
		if r := read(less); len(r.Findings) > 0 || len(r.Unseen) == 0 || !strings.Contains(lines(r), "401") {
			t.Errorf("without %s:\n%s", path, lines(r))
		}
	}
	if r := read(answers{"vhosts": `[{"name":"/"}]`}); !slices.Equal(names(r), []string{"vhost-missing"}) {
		t.Errorf("without the virtual host:\n%s", lines(r))
	}
	for _, a := range []answers{{}, {"vhosts": `[{"name":"shop"}]`}} {
		if b, err := topology.ReadAPI(t.Context(), a, topologytest.VHost); err == nil {
			t.Errorf("an API that refuses all: %v", b)
		}
	}
}
