package model

import (
	"fmt"
	"time"
)

// brokerHeader says why the value of a header that the broker itself reads is refused, or "".
//
// A queue that dead-letters a message reads its x-death and adds to it. Its process may crash, and
// with it what it was doing for others, where a part does not have the type that it expects. A
// well-formed x-death is let through: it comes with messages that a consumer forwards. So are
// x-first-death-* and x-last-death-* where they are strings, as the broker writes them.
func brokerHeader(k string, v any) string {
	switch k {
	case "x-death":
		return checkDeaths(v)
	case "x-first-death-exchange", "x-first-death-queue", "x-first-death-reason",
		"x-last-death-exchange", "x-last-death-queue", "x-last-death-reason":
		if _, ok := v.(string); !ok {
			return fmt.Sprintf("is the broker's own and must be a string, got %T", v)
		}
	}
	return ""
}

func checkDeaths(v any) string {
	deaths, ok := v.([]any)
	if !ok {
		return fmt.Sprintf("is the broker's own and must be an array of tables, got %T: the queue that dead-letters "+
			"the message may crash", v)
	}
	for i, d := range deaths {
		death, ok := d.(map[string]any)
		if !ok {
			return fmt.Sprintf("element %d is no table but %T: the queue that dead-letters the message may crash", i, d)
		}
		for _, k := range [...]string{"queue", "reason", "exchange", "routing-keys", "count", "time"} {
			if reason := checkDeathField(k, death[k]); reason != "" {
				return fmt.Sprintf("element %d: %q %s: the queue that dead-letters the message may crash", i, k, reason)
			}
		}
	}
	return ""
}

// checkDeathField checks one field of an x-death. All are needed.
func checkDeathField(k string, v any) string {
	var ok bool
	want := "a string"
	switch k {
	case "routing-keys":
		want = "an array of strings"
		var keys []any
		keys, ok = v.([]any)
		for _, key := range keys {
			_, isString := key.(string)
			ok = ok && isString
		}
	case "count":
		want = "an int64"
		_, ok = v.(int64)
	case "time":
		want = "a time"
		_, ok = v.(time.Time)
	default:
		_, ok = v.(string)
	}
	if !ok {
		return fmt.Sprintf("must be %s, got %T", want, v)
	}
	return ""
}
