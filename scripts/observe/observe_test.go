// Package observe_test checks the alert rules, the dashboard and the page about them
// against the metrics that package metrics really has.
package observe_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/transmsg/transmsg/model"
)

const page = "../../docs/operate/observe.md"

type noStore struct{}

func (noStore) Stats(context.Context, string) ([]model.Stats, error) { return nil, nil }

// ruleFile is a file of rules.
type ruleFile struct {
	Groups []ruleGroup `yaml:"groups"`
}

type ruleGroup struct {
	Name  string `yaml:"name"`
	Rules []rule `yaml:"rules"`
}

type rule struct {
	Alert       string            `yaml:"alert,omitempty"`
	Record      string            `yaml:"record,omitempty"`
	Expr        string            `yaml:"expr"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

// ruleTests is a file of unit tests for promtool.
type ruleTests struct {
	Tests []struct {
		Cases []struct {
			Alert string `yaml:"alertname"`
			Fires []any  `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	} `yaml:"tests"`
}

// dashboard is the part of Grafana's format that is checked.
type dashboard struct {
	Panels []struct {
		ID      int
		Type    string
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr, LegendFormat string }
	}
	Templating struct {
		List []struct {
			Name, Type string
			Query      string
		}
	}
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func rules(t *testing.T) []rule {
	t.Helper()
	var f ruleFile
	readYAML(t, "transmsg.rules.yaml", &f)
	if len(f.Groups) != 1 || len(f.Groups[0].Rules) == 0 {
		t.Fatalf("transmsg.rules.yaml: %d groups, want one with rules", len(f.Groups))
	}
	return f.Groups[0].Rules
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatalf("dashboard.json: %v", err)
	}
	return d
}

// runTestScript runs test.sh, which installs promtool where it is missing.
func runTestScript(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "./test.sh", args...).CombinedOutput()
	if err != nil {
		t.Errorf("test.sh %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestRulesPassPromtool(t *testing.T) { runTestScript(t) }

func TestRulesAskForRealMetrics(t *testing.T) {
	c := newCatalog(t)
	for _, r := range rules(t) {
		_, problems := c.check(r.Expr)
		for _, p := range problems {
			t.Errorf("%s: %s", r.Alert, p)
		}
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["action"] == "" {
			t.Errorf("%s: severity, summary and action must be there", r.Alert)
		}
	}
}

// Every alert has a case in which it fires and one in which it is silent.
func TestEveryRuleIsTestedBothWays(t *testing.T) {
	var tests ruleTests
	readYAML(t, "transmsg.rules.test.yaml", &tests)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, group := range tests.Tests {
		for _, c := range group.Cases {
			if len(c.Fires) > 0 {
				fires[c.Alert] = true
			} else {
				silent[c.Alert] = true
			}
		}
	}
	for _, r := range rules(t) {
		if !fires[r.Alert] || !silent[r.Alert] {
			t.Errorf("%s: a case that fires: %t, a silent one: %t; want both", r.Alert, fires[r.Alert], silent[r.Alert])
		}
		delete(fires, r.Alert)
		delete(silent, r.Alert)
	}
	for _, name := range append(slices.Collect(maps.Keys(fires)), slices.Collect(maps.Keys(silent))...) {
		t.Errorf("a case for %s, which is no alert", name)
	}
}

// Every query of the dashboard asks for metrics and labels that exist, and every metric is
// shown somewhere.
func TestDashboardAsksForRealMetrics(t *testing.T) {
	c, d := newCatalog(t), readDashboard(t)
	shown, ids := map[string]bool{}, map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("panel %q: id %d is there twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			names, problems := c.check(target.Expr)
			for _, problem := range append(problems, c.checkLegend(target.Expr, target.LegendFormat)...) {
				t.Errorf("panel %q: %s\n%s", p.Title, problem, target.Expr)
			}
			for _, n := range names {
				shown[n] = true
			}
		}
	}
	for name := range c.labels {
		if !shown[name] {
			t.Errorf("%s is on no panel", name)
		}
	}
	for _, v := range d.Templating.List {
		parts := regexp.MustCompile(`^label_values\(([a-z_]+), ([a-z]+)\)$`).FindStringSubmatch(v.Query)
		if v.Type != "query" {
			continue
		}
		if parts == nil || parts[2] != v.Name {
			t.Errorf("variable %s: query %q must be label_values(metric, %s)", v.Name, v.Query, v.Name)
			continue
		}
		if _, labels, err := c.find(parts[1]); err != nil || !slices.Contains(labels, v.Name) {
			t.Errorf("variable %s: %v, labels %v", v.Name, err, labels)
		}
	}
}

// Every query of the dashboard is PromQL.
func TestDashboardPassesPromtool(t *testing.T) {
	var file ruleFile
	group := ruleGroup{Name: "dashboard"}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$service", "orders", "$instance", "a")
	for _, p := range readDashboard(t).Panels {
		for i, target := range p.Targets {
			group.Rules = append(group.Rules, rule{
				Record: fmt.Sprintf("panel%d:query%d", p.ID, i), Expr: variables.Replace(target.Expr),
			})
		}
	}
	file.Groups = []ruleGroup{group}
	text, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "dashboard.rules.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	runTestScript(t, path)
}

// No two panels cover each other.
func TestDashboardPanelsDoNotOverlap(t *testing.T) {
	taken := map[[2]int]string{}
	for _, p := range readDashboard(t).Panels {
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q reaches beyond the 24 columns", p.Title)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("panels %q and %q overlap", other, p.Title)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

// The page names metrics that exist, and every alert.
func TestPageIsTrue(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	c := newCatalog(t)
	for _, s := range selector.FindAllStringSubmatch(string(text), -1) {
		if _, ok := c.labels[s[1]]; !ok {
			t.Errorf("%s names %s, which is no metric", page, s[1])
			continue
		}
		if s[2] != "" {
			_, labels, err := c.find(s[1])
			if err != nil {
				continue // a histogram by its name
			}
			for _, p := range c.checkMatchers(s[1], labels, s[2]) {
				t.Errorf("%s: %s", page, p)
			}
		}
	}
	alerts := map[string]bool{}
	for _, r := range rules(t) {
		alerts[r.Alert] = true
		if !strings.Contains(string(text), "`"+r.Alert+"`") {
			t.Errorf("%s does not name %s", page, r.Alert)
		}
	}
	for _, name := range regexp.MustCompile(`\bTransmsg[A-Z][A-Za-z]+`).FindAllString(string(text), -1) {
		if !alerts[name] {
			t.Errorf("%s names %s, which is no alert", page, name)
		}
	}
}

// The page's prometheus.yml is one that Prometheus takes, with the rules beside it.
func TestPageConfigPassesPromtool(t *testing.T) {
	runTestScript(t) // installs promtool where it is missing
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatalf("%s has no YAML block", page)
	}
	rules, err := os.ReadFile("transmsg.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"prometheus.yml": block[1], "transmsg.rules.yaml": rules} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "promtool", "check", "config", filepath.Join(dir, "prometheus.yml")).
		CombinedOutput()
	if err != nil || !strings.Contains(string(out), "1 rule files found") {
		t.Errorf("promtool check config: %v\n%s", err, out)
	}
}
