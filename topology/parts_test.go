package topology_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/transmsg/transmsg/topology"
)

func TestPatternsOfTheBroker(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern, name string
		want          bool
	}{
		{"^orders", "orders.all", true},
		{"all$", "orders.all", true},
		{"", "anything", true},
		{`^(?!amq\.).*`, "amq.direct", false},
		{`^(?!amq\.).*`, "orders", true},
		{`^(?!(?:a|b[)])x).`, "bx", true},
		{`^(?!(?:a|b[)])x).`, "ax", false},
		{`^(?=o)[a-z]+$`, "orders", true},
		{`^(?=o)[a-z]+$`, "payments", false},
		{`^(?!a)(?!b).`, "bc", false},
		{`^(?!a)(?!b).`, "cc", true},
	} {
		if got, err := topology.Matches(tc.pattern, tc.name); err != nil || got != tc.want {
			t.Errorf("%q on %q = %v, %v, want %v", tc.pattern, tc.name, got, err, tc.want)
		}
	}
	for _, pattern := range []string{`a(?!b)`, `^(?!a)b|c`, `(?<=a)b`, `(a)\1`} {
		if got, err := topology.Matches(pattern, "x"); err == nil {
			t.Errorf("%q = %v; nobody can tell", pattern, got)
		}
	}
}

func TestTopicsMatchAndOverlap(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b          string
		matches, meet bool
	}{
		{"#", "a.b", true, true},
		{"#", "", true, true},
		{"a.*", "a.b", true, true},
		{"a.*", "a", false, false},
		{"a.#", "a", true, true},
		{"*.b", "a.*", false, true},
		{"a.#", "#.b", false, true},
		{"a.#.c", "*.b.#", false, true},
		{"a.b", "a.c", false, false},
		{"*", "a.b.#", false, false},
	} {
		if got := topology.TopicMatches(tc.a, tc.b); got != tc.matches {
			t.Errorf("%s takes %s: %v, want %v", tc.a, tc.b, got, tc.matches)
		}
		if got := topology.TopicsOverlap(tc.a, tc.b); got != tc.meet {
			t.Errorf("%s and %s overlap: %v, want %v", tc.a, tc.b, got, tc.meet)
		}
	}
}

// Against another way to say the same: a pattern as a regular expression over words.
func TestTopicsAgreeWithRegularExpressions(t *testing.T) {
	t.Parallel()
	words := func(from ...string) *rapid.Generator[string] {
		return rapid.Map(rapid.SliceOfN(rapid.SampledFrom(from), 0, 5), func(w []string) string {
			return strings.Join(w, ".")
		})
	}
	asRegexp := func(pattern string) *regexp.Regexp {
		var out strings.Builder
		out.WriteString("^")
		if pattern != "" {
			for word := range strings.SplitSeq(pattern, ".") {
				switch word {
				case "#":
					out.WriteString(`([ab]\.)*`)
				case "*":
					out.WriteString(`[ab]\.`)
				default:
					out.WriteString(word + `\.`)
				}
			}
		}
		return regexp.MustCompile(out.String() + "$")
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := words("a", "b", "*", "#").Draw(t, "a"), words("a", "b", "*", "#").Draw(t, "b")
		key := words("a", "b").Draw(t, "key")
		ended := key + "."
		if key == "" {
			ended = ""
		}
		inA, inB := asRegexp(a).MatchString(ended), asRegexp(b).MatchString(ended)
		if got := topology.TopicMatches(a, key); got != inA {
			t.Fatalf("%s takes %s: %v, want %v", a, key, got, inA)
		}
		if inA && inB && !topology.TopicsOverlap(a, b) {
			t.Fatalf("%s and %s both take %s, and do not overlap", a, b, key)
		}
	})
}

// Of argument, policy and operator policy the one counts that the broker takes.
func TestSettingInForce(t *testing.T) {
	t.Parallel()
	policy := func(pattern string, priority int64, definition object) topology.Policy {
		return topology.Policy{Name: "p", Pattern: pattern, ApplyTo: "all", Priority: priority, Definition: definition}
	}
	n := func(n int64) object { return object{"max-length": n} }
	for _, tc := range []struct {
		name, version string
		arguments     object
		policies      []topology.Policy
		operators     []topology.Policy
		key           string
		want          any
	}{
		{"argument alone", "3.10.8", object{"x-max-length": int64(3)}, nil, nil, "max-length", int64(3)},
		{
			"highest priority", "3.10.8", nil,
			[]topology.Policy{policy("q", 1, n(1)), policy("q", 2, n(2))},
			nil,
			"max-length", int64(2),
		},
		{
			"one policy alone", "3.10.8", nil,
			[]topology.Policy{policy("q", 1, n(1)), policy("q", 2, nil)},
			nil,
			"max-length", nil,
		},
		{"another name", "3.10.8", nil, []topology.Policy{policy("^other", 1, n(1))}, nil, "max-length", nil},
		{
			"smaller argument", "3.10.8",
			object{"x-max-length": int64(1)},
			[]topology.Policy{policy("q", 1, n(2))},
			nil, "max-length", int64(1),
		},
		{
			"smaller policy", "3.10.8",
			object{"x-max-length": int64(3)},
			[]topology.Policy{policy("q", 1, n(2))},
			nil, "max-length", int64(2),
		},
		{
			"operator's smaller", "3.10.8", nil,
			[]topology.Policy{policy("q", 1, n(2))},
			[]topology.Policy{policy("q", 1, n(1))},
			"max-length", int64(1),
		},
		{
			"operator's larger", "3.10.8", nil,
			[]topology.Policy{policy("q", 1, n(2))},
			[]topology.Policy{policy("q", 1, n(5))},
			"max-length", int64(2),
		},
		{
			"overflow by policy on quorum", "3.10.8",
			object{"x-overflow": "drop-head", "x-queue-type": "quorum"},
			[]topology.Policy{policy("q", 1, object{"overflow": "reject-publish"})},
			nil, "overflow", "reject-publish",
		},
		{
			"overflow by argument on classic", "3.10.8",
			object{"x-overflow": "drop-head"},
			[]topology.Policy{policy("q", 1, object{"overflow": "reject-publish"})},
			nil, "overflow", "drop-head",
		},
		{
			"-1 before 4", "3.13.0",
			object{"x-delivery-limit": int64(-1)},
			[]topology.Policy{policy("q", 1, object{"delivery-limit": int64(1000)})},
			nil, "delivery-limit", int64(-1),
		},
		{
			"-1 from 4 on", "4.0.5",
			object{"x-delivery-limit": int64(-1)},
			[]topology.Policy{policy("q", 1, object{"delivery-limit": int64(1000)})},
			nil, "delivery-limit", int64(1000),
		},
	} {
		b := &topology.Broker{
			Version: tc.version, Queues: map[string]topology.Queue{"q": {Name: "q", Arguments: tc.arguments}},
			Policies: tc.policies, OperatorPolicies: tc.operators,
		}
		if got := b.Setting("q", tc.key); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
