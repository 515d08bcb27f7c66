package observe_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/transmsg/transmsg/metrics"
)

// catalog is what can be asked for: each series' labels, and the words that the package
// comment of metrics gives for their values.
type catalog struct {
	labels map[string][]string // by name as described, without a histogram's suffixes
	doc    string
}

var (
	described = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([a-z,]*)\}`)
	selector  = regexp.MustCompile(`(transmsg_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher   = regexp.MustCompile(`^([a-z_]+)(=~|!~|!=|=)"([^"]*)"$`)
	grouping  = regexp.MustCompile(`\bby \(([a-z, ]+)\)`)
	legend    = regexp.MustCompile(`\{\{([a-z_]+)\}\}`)
	overTime  = regexp.MustCompile(`\b(rate|increase)\($`)
	absence   = regexp.MustCompile(`\babsent\($`)
)

func newCatalog(t *testing.T) catalog {
	t.Helper()
	m, err := metrics.New(metrics.Config{Store: noStore{}})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../../metrics/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	c := catalog{labels: map[string][]string{}, doc: string(doc)}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		m.Describe(descs)
	}()
	for d := range descs {
		parts := described.FindStringSubmatch(d.String())
		if parts == nil {
			t.Fatalf("cannot read %s", d)
		}
		c.labels[parts[1]] = strings.FieldsFunc(parts[2], func(r rune) bool { return r == ',' })
	}
	return c
}

// find returns the described name and the labels of a series, also of a histogram's.
func (c catalog) find(series string) (name string, labels []string, err error) {
	name = series
	labels, ok := c.labels[series]
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if base, cut := strings.CutSuffix(series, suffix); !ok && cut && strings.HasSuffix(base, "_duration_seconds") {
			name = base
			labels, ok = c.labels[base]
			if suffix == "_bucket" {
				labels = append(slices.Clone(labels), "le")
			}
		}
	}
	switch {
	case !ok:
		return "", nil, fmt.Errorf("there is no metric %s", series)
	case name == series && strings.HasSuffix(series, "_duration_seconds"):
		return "", nil, fmt.Errorf("%s is a histogram: ask for its _bucket, _count or _sum", series)
	}
	// What Prometheus itself adds to every series.
	return name, append(slices.Clone(labels), "job", "instance"), nil
}

// check returns the names that expr asks for, and what is wrong with it.
func (c catalog) check(expr string) (names, problems []string) {
	var common []string // labels that every series of expr has
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for i, at := range selector.FindAllStringSubmatchIndex(expr, -1) {
		series := expr[at[2]:at[3]]
		name, labels, err := c.find(series)
		if err != nil {
			complain("%v", err)
			continue
		}
		names = append(names, name)
		if at[4] >= 0 {
			problems = append(problems, c.checkMatchers(series, labels, expr[at[4]:at[5]])...)
		}
		grows := strings.HasSuffix(series, "_total") || name != series
		if before := expr[:at[0]]; grows != overTime.MatchString(before) && !absence.MatchString(before) {
			complain("%s: rate and increase belong to counters, and counters to them", series)
		}
		if i == 0 {
			common = labels
		}
		common = slices.DeleteFunc(slices.Clone(common), func(l string) bool { return !slices.Contains(labels, l) })
	}
	if len(names) == 0 {
		complain("asks for no metric of transmsg")
	}
	for _, by := range grouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(by[1], ", ") {
			if !slices.Contains(common, label) {
				complain("by (%s): not every series has it", label)
			}
		}
	}
	return names, problems
}

// checkMatchers checks label names, and values that are written out.
func (c catalog) checkMatchers(series string, labels []string, matchers string) (problems []string) {
	for m := range strings.SplitSeq(matchers, ",") {
		parts := matcher.FindStringSubmatch(m)
		if parts == nil || !slices.Contains(labels, parts[1]) {
			problems = append(problems, fmt.Sprintf("%s has no label for %s", series, m))
			continue
		}
		if strings.HasPrefix(parts[3], "$") {
			continue // a variable of the dashboard
		}
		for value := range strings.SplitSeq(parts[3], "|") {
			if !regexp.MustCompile(`\b` + regexp.QuoteMeta(value) + `\b`).MatchString(c.doc) {
				problems = append(problems, fmt.Sprintf("%s: %s never has the value %q", series, parts[1], value))
			}
		}
	}
	return problems
}

// checkLegend checks the labels that a legend shows against what expr leaves of them.
func (c catalog) checkLegend(expr, format string) (problems []string) {
	var left []string
	if by := grouping.FindStringSubmatch(expr); by != nil {
		left = strings.Split(by[1], ", ")
	} else if s := selector.FindStringSubmatch(expr); s != nil && !strings.Contains(expr, "sum(") {
		_, left, _ = c.find(s[1]) // its error is check's
	}
	for _, l := range legend.FindAllStringSubmatch(format, -1) {
		if !slices.Contains(left, l[1]) {
			problems = append(problems, fmt.Sprintf("legend shows %s, the result has %v", l[1], left))
		}
	}
	return problems
}

// The checker itself finds what it is there for.
func TestCheckFindsMistakes(t *testing.T) {
	c := newCatalog(t)
	for _, tt := range []struct{ name, expr, want string }{
		{"fine", `sum by (kind) (rate(transmsg_outcomes_total{service=~"$service",kind!="acked"}[5m]))`, ""},
		{"histogram", `sum by (le) (rate(transmsg_confirm_duration_seconds_bucket{sender="$sender"}[5m]))`, ""},
		{"name", `transmsg_row`, "there is no metric transmsg_row"},
		{"suffix", `rate(transmsg_outcomes_total_count[5m])`, "there is no metric"},
		{"bare histogram", `transmsg_confirm_duration_seconds`, "is a histogram"},
		{"label", `transmsg_rows{state="dead"}`, "has no label for state"},
		{"value", `transmsg_rows{status="deed"}`, `never has the value "deed"`},
		{"group", `max by (sender) (transmsg_rows)`, "by (sender)"},
		{"group of one side", `max by (status) (transmsg_rows or transmsg_rows_due)`, "by (status)"},
		{"counter", `transmsg_outcomes_total > 5`, "rate and increase belong to counters"},
		{"gauge", `rate(transmsg_rows[5m])`, "rate and increase belong to counters"},
		{"nothing of ours", `up == 0`, "no metric of transmsg"},
	} {
		_, problems := c.check(tt.expr)
		got := strings.Join(problems, "; ")
		if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s: got %q, want %q", tt.name, tt.expr, got, tt.want)
		}
	}
	if got := c.checkLegend(`sum by (kind) (rate(transmsg_outcomes_total[5m]))`, "{{role}}"); len(got) != 1 {
		t.Errorf("a legend with a label that is summed away: %q", got)
	}
}
