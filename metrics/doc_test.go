package metrics_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/transmsg/transmsg/metrics"
)

var (
	documented = regexp.MustCompile(`(?m)^//\t(transmsg_[a-z_]+(?:\{[a-z,]+\})?)(?:\s|$)`)
	described  = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "([^"]*)", unit: "", constLabels: \{\}, ` +
		`variableLabels: \{([a-z,]*)\}\}$`)
)

// The package comment names every metric with its labels, and nothing else.
func TestDocListsEveryMetric(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range documented.FindAllStringSubmatch(string(text), -1) {
		want = append(want, m[1])
	}
	slices.Sort(want)
	m, err := metrics.New(metrics.Config{Store: &fakeStore{}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(names(t, m), want); diff != "" {
		t.Errorf("registered and documented metrics differ (-registered +documented):\n%s", diff)
	}
}

// names returns what m describes, as name{label,label}, sorted.
func names(t *testing.T, m *metrics.Metrics) []string {
	t.Helper()
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		m.Describe(descs)
	}()
	var out []string
	for d := range descs {
		parts := described.FindStringSubmatch(d.String())
		if parts == nil {
			t.Errorf("cannot read %s", d)
			continue
		}
		name := parts[1]
		if parts[3] != "" {
			name += "{" + parts[3] + "}"
		}
		if parts[2] == "" || !strings.HasSuffix(parts[2], ".") {
			t.Errorf("%s: help %q is not a sentence", name, parts[2])
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
