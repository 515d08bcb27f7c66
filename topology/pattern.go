package topology

import (
	"fmt"
	"regexp"
	"strings"
)

// matches tells whether a broker's regular expression is found in a name. RabbitMQ has Perl's expressions and Go has
// no look-ahead, so that one at the beginning, as in ^(?!amq\.).*, is taken apart here; another is an error.
func matches(pattern, name string) (bool, error) {
	ahead, rest, found := lookahead(pattern)
	if !found {
		re, err := regexp.Compile(pattern)
		if err != nil {
			return false, fmt.Errorf("pattern %s: %w", pattern, err)
		}
		return re.MatchString(name), nil
	}
	first, err := regexp.Compile("^(?:" + ahead[3:] + ")")
	if err != nil {
		return false, fmt.Errorf("pattern %s: %w", pattern, err)
	}
	if first.MatchString(name) == (ahead[2] == '!') {
		return false, nil
	}
	return matches("^"+rest, name)
}

// lookahead splits a pattern that begins with ^(?!...) or ^(?=...): the group without its last parenthesis, and the
// rest.
func lookahead(pattern string) (ahead, rest string, found bool) {
	if !strings.HasPrefix(pattern, "^(?!") && !strings.HasPrefix(pattern, "^(?=") {
		return "", "", false
	}
	depth, class := 0, false
	for i := 1; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth == 0 {
				return pattern[1:i], pattern[i+1:], !topLevelOr(pattern[i+1:])
			}
		}
	}
	return "", "", false
}

// topLevelOr tells whether an alternative stands outside of all groups: it would not be behind the look-ahead.
func topLevelOr(rest string) bool {
	depth := 0
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '(':
			depth++
		case ')':
			depth--
		case '|':
			if depth == 0 {
				return true
			}
		}
	}
	return false
}
