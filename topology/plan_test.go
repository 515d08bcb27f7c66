package topology_test

import (
	"os"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/internal/topologytest"
	"github.com/transmsg/transmsg/topology"
)

func TestPlanIsRefusedWithFieldValueAndBound(t *testing.T) {
	t.Parallel()
	const route = "routes: [{exchange: a, queue: b}]\n"
	for _, tc := range []struct{ text, want string }{
		{"", "it is empty"},
		{"routes: []", "routes: there is none"},
		{"routs: []", "field routs not found"},
		{route + "---\nx: 1", "more than one document"},
		{"routes: [{exchange: 'a b', queue: b}]", `routes[0].exchange "a b" must be letters`},
		{"routes: [{exchange: amq.topic, queue: b}]", "must not begin with amq."},
		{"routes: [{exchange: a, queue: ''}]", `routes[0].queue "" must be letters`},
		{"routes: [{exchange: a, queue: b, type: x}]", `routes[0].type "x" must be topic`},
		{
			"routes: [{exchange: a, queue: b}, {exchange: a, queue: c, type: fanout}]",
			`routes[1].type "fanout": exchange a is "topic"`,
		},
		{route + "queues: [{name: c}]", "queues[0].name c is in no route"},
		{route + "queues: [{name: b, partitions: 1}]", "queues[0].partitions 1 must be 2 to 1024"},
		{route + "queues: [{name: b, partitions: 2, retry: [1s]}]", "queues[0].retry: a ladder breaks the order"},
		{route + "queues: [{name: b, hash-header: x}]", "only with partitions"},
		{route + "queues: [{name: b, retry: [1s, 1s]}]", "step 1s is there twice"},
		{route + "queues: [{name: b}, {name: b}]", "queue b would be two"},
		{"routes: [{exchange: a, queue: dead-letters}]", "queue dead-letters would be two"},
		{"routes: [{exchange: dead-letters, queue: a}]", "exchange dead-letters would be two"},
		{route + "users: {boss: {name: x}}", "users.boss: the roles are publisher"},
		{route + "users: {consumer: {name: x}, publisher: {name: x}}", "users: x is consumer and publisher"},
		{"routes: [{exchange: a, queue: b, key: " + strings.Repeat("k", 256) + "}]", "routes[0].key has 256 bytes"},
	} {
		if _, err := topology.ParsePlan([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want %q", tc.text, err, tc.want)
		}
	}
}

// What print declares is what check wants, with nothing between the two but the file.
func TestPrintedDefinitionsAreAsWanted(t *testing.T) {
	t.Parallel()
	p := goodPlan(t)
	text, err := p.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, password := range topologytest.Users {
		if strings.Contains(string(text), password) {
			t.Errorf("a password is in the definitions")
		}
	}
	d, err := topologytest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	d["rabbitmq_version"], d["topic_permissions"], d["parameters"] = "3.10.8", []any{}, []any{}
	if text, err = d.Text(); err != nil {
		t.Fatal(err)
	}
	b, err := topology.ReadDefinitions(text, topologytest.VHost)
	if err != nil {
		t.Fatal(err)
	}
	if r := topology.Check(b, p, topology.ViewAll); !r.OK() {
		t.Error(lines(r))
	}
	login := p.Users[topology.Consumer]
	login.Password = "another"
	p.Users[topology.Consumer] = login
	says(t, topology.Check(b, p, topology.ViewAll), "user shop-consumer: the password is another than the one given")
	says(t, topology.Check(b, p, topology.ViewPublisher)) // not the publisher's matter
}

// The page's topology file is one, and the page has each rule.
func TestPageIsTrue(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/operate/topology.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	if _, err := topology.ParsePlan([]byte(example)); err != nil {
		t.Error(err)
	}
	for _, rule := range topology.Rules() {
		if !strings.Contains(string(page), "`"+rule.Name+"`") {
			t.Errorf("the page does not name rule %s", rule.Name)
		}
	}
}
