package management

import (
	"math"
	"strings"
	"time"

	"github.com/transmsg/transmsg/model"
)

// verdict says whether a binding takes a message. Values are in the order of certainty, so that
// the least of several is what all of them are.
type verdict int

const (
	no verdict = iota
	maybe
	yes
)

func is(b bool) verdict {
	if b {
		return yes
	}
	return no
}

// topicMatches says whether a topic exchange's pattern takes a routing key: * is one word, # any
// number of them.
func topicMatches(pattern, key string) bool {
	words := topicWords(key)
	// reached[i] says that the pattern so far takes the first i words.
	reached := make([]bool, len(words)+1)
	reached[0] = true
	for _, p := range topicWords(pattern) {
		next := make([]bool, len(words)+1)
		for i := range reached {
			switch {
			case p == "#":
				next[i] = reached[i] || i > 0 && next[i-1]
			case i > 0:
				next[i] = reached[i-1] && (p == "*" || p == words[i-1])
			}
		}
		reached = next
	}
	return reached[len(words)]
}

// topicWords splits as the broker does: an empty key has no word, not an empty one.
func topicWords(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// headersMatch says whether a headers exchange's binding takes a message with these headers.
func headersMatch(arguments, headers map[string]any) verdict {
	kind, _ := arguments["x-match"].(string)
	base, withX := strings.CutSuffix(kind, "-with-x")
	each, some := yes, no // x-match all, and any
	for name, want := range arguments {
		if name == "x-match" || strings.HasPrefix(name, "x-") && !withX {
			continue
		}
		v := valueMatches(want, name, headers)
		each, some = min(each, v), max(some, v)
	}
	if base == "any" {
		return some
	}
	return each
}

// noValue is how the API prints an argument without a value (3.10), and one with this text.
const noValue = "undefined"

// valueMatches compares an argument as JSON has it with a header. An argument without a value
// asks for the header's presence alone. The broker compares types too (up to 3.12), and JSON has
// lost those of numbers. A text is taken for one, though bytes would look the same.
func valueMatches(want any, name string, headers map[string]any) verdict {
	have, ok := headers[name]
	if !ok {
		// The library's own are added when the message is sent.
		return min(maybe, is(strings.HasPrefix(name, "transmsg-")))
	}
	switch want := want.(type) {
	case nil:
		return yes
	case bool:
		return is(have == want)
	case string:
		if bytes, ok := have.([]byte); ok && want != noValue {
			return min(maybe, is(string(bytes) == want))
		}
		if want == noValue && have != want {
			return maybe
		}
		return is(have == want)
	case float64:
		n, ok := number(have)
		return min(maybe, is(ok && n == want))
	}
	switch have.(type) {
	case map[string]any, []any:
		return maybe
	}
	return no
}

// number is a header as JSON's only kind of number.
func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int8:
		return float64(n), true
	case int16:
		return float64(n), true
	case int32:
		return float64(n), true
	case int64:
		return float64(n), true
	case uint8:
		return float64(n), true
	case uint16:
		return float64(n), true
	case uint32:
		return float64(n), true
	case float32:
		return float64(n), true
	case float64:
		return n, true
	case time.Time:
		return float64(n.Unix()), true
	case model.Decimal:
		return float64(n.Value) / math.Pow10(int(n.Scale)), true
	}
	return 0, false
}
