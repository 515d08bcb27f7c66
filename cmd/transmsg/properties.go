package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/transmsg/transmsg/model"
)

// propertyLines are the properties that are set, and the headers with their types.
func propertyLines(m *model.Message) [][2]string {
	p := &m.Properties
	var lines [][2]string
	for _, f := range [...]struct{ name, value string }{
		{"content type", p.ContentType},
		{"content encoding", p.ContentEncoding},
		{"correlation id", p.CorrelationID},
		{"reply to", p.ReplyTo},
		{"expiration", p.Expiration},
		{"type", p.Type},
		{"app id", p.AppID},
	} {
		if f.value != "" {
			lines = append(lines, [2]string{f.name, fmt.Sprintf("%q", f.value)})
		}
	}
	if p.Priority > 0 {
		lines = append(lines, [2]string{"priority", fmt.Sprint(p.Priority)})
	}
	if !p.Timestamp.IsZero() {
		lines = append(lines, [2]string{"timestamp", p.Timestamp.UTC().Format(time.RFC3339)})
	}
	if m.AllowUnroutable {
		lines = append(lines, [2]string{"allow unroutable", "true"})
	}
	for _, k := range slices.Sorted(maps.Keys(m.Headers)) {
		lines = append(lines, [2]string{fmt.Sprintf("header %q", k), headerText(m.Headers[k])})
	}
	return lines
}

// headerText shows a header value with its type: 1 as an int64 and "1" are two values.
func headerText(v any) string {
	switch x := v.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("%q", x)
	case []byte:
		return fmt.Sprintf("bytes %q", x)
	case time.Time:
		return "time " + x.UTC().Format(time.RFC3339)
	case model.Decimal:
		return fmt.Sprintf("decimal %d scale %d", x.Value, x.Scale)
	case map[string]any, []any:
		return fmt.Sprintf("%#v", x)
	default:
		return fmt.Sprintf("%T %v", x, x)
	}
}
