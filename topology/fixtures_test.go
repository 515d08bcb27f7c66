package topology_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/proc"
	"github.com/transmsg/transmsg/internal/topologytest"
	"github.com/transmsg/transmsg/topology"
)

var update = flag.Bool("update", false, "make the fixtures anew: those of RabbitMQ 3 on a private node, or those of "+
	"4 on the one whose management API is TRANSMSG_TEST_AMQP_API_URL, which needs the consistent-hash exchange")

const goodName = "good"

// goodPlan is the plan of the fixtures, with passwords.
func goodPlan(t *testing.T) *topology.Plan {
	t.Helper()
	p, err := topology.ParsePlan([]byte(topologytest.TopologyFile))
	if err != nil {
		t.Fatal(err)
	}
	for role, login := range p.Users {
		login.Password = topologytest.Users[string(role)]
		p.Users[role] = login
	}
	return &p
}

func fixture(t *testing.T, name string) *topology.Broker {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := topology.ReadDefinitions(text, topologytest.VHost)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// names are the rules of a report's findings, each once.
func names(r topology.Report) []string {
	var out []string
	for _, f := range r.Findings {
		out = append(out, f.Rule)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func lines(r topology.Report) string {
	var out strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&out, "%s [%s]\n", f, f.Rule)
	}
	for _, u := range r.Unseen {
		fmt.Fprintf(&out, "not checked: %s: %s\n", u.Rule, u.Why)
	}
	return out.String()
}

// Each fixture is an export of a real broker. Its rules find it by name, no other rule finds anything, and of the
// good one nothing is said.
func TestFixturesAreFoundByName(t *testing.T) {
	t.Parallel()
	if *update {
		makeFixtures(t)
	}
	for _, good := range []string{goodName, goodName + "-4"} {
		if r := topology.Check(fixture(t, good), goodPlan(t), topology.ViewAll); !r.OK() {
			t.Errorf("the export %s:\n%s", good, lines(r))
		}
		if r := topology.Check(fixture(t, good), nil, topology.ViewAll); !r.OK() {
			t.Errorf("the export %s without a plan:\n%s", good, lines(r))
		}
	}
	for _, way := range topologytest.Ways() {
		t.Run(way.Name, func(t *testing.T) {
			t.Parallel()
			r := topology.Check(fixture(t, way.Name), goodPlan(t), topology.ViewAll)
			slices.Sort(way.Rules)
			if got := names(r); !slices.Equal(got, way.Rules) || len(r.Unseen) > 0 {
				t.Errorf("found by %v, want %v:\n%s", got, way.Rules, lines(r))
			}
			if !strings.Contains(lines(r), way.Says) {
				t.Errorf("no finding says %q:\n%s", way.Says, lines(r))
			}
		})
	}
}

// A rule without a fixture could be taken out and nothing would notice.
func TestEachRuleHasAFixture(t *testing.T) {
	t.Parallel()
	ways := topologytest.Ways()
	if len(ways) < 20 {
		t.Errorf("%d broken topologies, want at least 20", len(ways))
	}
	for _, rule := range topology.Rules() {
		if !slices.ContainsFunc(ways, func(w topologytest.Way) bool { return slices.Contains(w.Rules, rule.Name) }) {
			t.Errorf("no fixture is found by %s", rule.Name)
		}
	}
}

// makeFixtures has a real broker import each topology, and keeps what it exports.
func makeFixtures(t *testing.T) {
	t.Helper()
	api := os.Getenv("TRANSMSG_TEST_AMQP_API_URL")
	major, goods := 4, goodName+"-4"
	if api == "" {
		port, err := proc.FreePorts(1)
		if err != nil {
			t.Fatal(err)
		}
		amqptest.StartNode(t, amqptest.Options{
			Plugins: []string{"rabbitmq_management", "rabbitmq_consistent_hash_exchange"},
			Config:  []string{"management.tcp.ip = 127.0.0.1", fmt.Sprintf("management.tcp.port = %d", port[0])},
		})
		api, major, goods = "http://"+proc.Loopback(port[0]), 3, goodName
	}
	good, err := goodPlan(t).Definitions()
	if err != nil {
		t.Fatal(err)
	}
	keep(t, api, goods, good)
	for _, way := range topologytest.Ways() {
		if !way.On(major) || major == 4 && way.Since < 4 {
			continue
		}
		d, err := topologytest.Parse(good)
		if err != nil {
			t.Fatal(err)
		}
		way.Break(d, topologytest.VHost)
		text, err := d.Text()
		if err != nil {
			t.Fatal(err)
		}
		keep(t, api, way.Name, text)
	}
}

// keep imports definitions into an empty broker and writes its export.
func keep(t *testing.T, api, name string, definitions []byte) {
	t.Helper()
	for _, vhost := range []string{topologytest.VHost, topologytest.Elsewhere} {
		_ = call(t, http.MethodDelete, api+"/api/vhosts/"+vhost, nil) // may not be there
	}
	for role := range topologytest.Users {
		_ = call(t, http.MethodDelete, api+"/api/users/shop-"+role, nil)
	}
	if out := call(t, http.MethodPost, api+"/api/definitions", definitions); out == nil {
		t.Fatalf("%s: not imported", name)
	}
	export := call(t, http.MethodGet, api+"/api/definitions", nil)
	if export == nil {
		t.Fatalf("%s: not exported", name)
	}
	d, err := topologytest.Parse(export)
	if err != nil {
		t.Fatal(err)
	}
	d.Only()
	text, err := d.Text()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata", name+".json"), append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// call asks the management API; nil is a refusal, which it logs.
func call(t *testing.T, method, url string, body []byte) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("guest", "guest")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode >= 300 {
		t.Logf("%s %s: %s %s", method, url, resp.Status, out)
		return nil
	}
	if out == nil {
		out = []byte{}
	}
	return out
}
