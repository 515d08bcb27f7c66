package model_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/transmsg/transmsg/model"
)

// testNow is the time at which tests normalize.
func testNow() time.Time { return time.Unix(1790000000, 0).UTC() }

// normalize is Normalize with default limits; it fails the test on an error.
func normalize(tb rapid.TB, m model.Message) model.Message {
	tb.Helper()
	out, err := model.Normalize(m, testNow(), model.Limits{})
	if err != nil {
		tb.Fatalf("Normalize: %v", err)
	}
	return out
}

// wantInvalid checks that err is an InvalidError of field that says each of parts.
func wantInvalid(t *testing.T, err error, field string, parts ...string) {
	t.Helper()
	var invalid *model.InvalidError
	if !errors.As(err, &invalid) || !errors.Is(err, model.ErrInvalid) {
		t.Fatalf("got error %v, want an InvalidError", err)
	}
	if invalid.Field != field {
		t.Errorf("got field %q, want %q (%v)", invalid.Field, field, err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got %q, want it to contain %q", err, part)
		}
	}
}

// diffExact compares messages by value and Go type, also the sign of zero, and nil
// against empty. (go-cmp itself takes exponential time on nested arrays.)
func diffExact(want, got model.Message) string {
	return cmp.Diff(exact(want), exact(got))
}

func diffHeaders(want, got map[string]any) string {
	return cmp.Diff(exactValue(want), exactValue(got))
}

func exact(m model.Message) string {
	headers := m.Headers
	m.Headers = nil
	return fmt.Sprintf("%#v\ntimestamp %v\nheaders %s", m, m.Properties.Timestamp, exactValue(headers))
}

// exactValue writes a header value with the type of every part.
func exactValue(v any) string {
	var b strings.Builder
	switch x := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(x)) {
			fmt.Fprintf(&b, "\n%q: %s", k, exactValue(x[k]))
		}
		return fmt.Sprintf("table nil=%v {%s\n}", x == nil, b.String())
	case []any:
		for _, e := range x {
			b.WriteString(exactValue(e) + ",\n")
		}
		return fmt.Sprintf("array nil=%v [%s]", x == nil, b.String())
	case time.Time:
		return fmt.Sprintf("time %d.%d %v", x.Unix(), x.Nanosecond(), x.Location())
	}
	return fmt.Sprintf("%T(%#v)", v, v)
}

// shortText generates what a short string may hold: at most 255 bytes, no NUL.
func shortText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.Just(""), rapid.Just(strings.Repeat("k", 255)),
		rapid.StringN(0, -1, 255).Filter(func(s string) bool { return !strings.ContainsAny(s, "\x00") }))
}

func headerName() *rapid.Generator[string] {
	return shortText().Filter(func(s string) bool {
		return s != "CC" && s != "BCC" && !strings.HasPrefix(strings.TrimPrefix(strings.ToLower(s), "x-"), "transmsg-")
	})
}

// headerValue generates a normalized header value of every AMQP type.
func headerValue(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(),
		rapid.Int8().AsAny(), rapid.Uint8().AsAny(), rapid.Int16().AsAny(), rapid.Uint16().AsAny(),
		rapid.Int32().AsAny(), rapid.Uint32().AsAny(), rapid.Int64().AsAny(),
		rapid.Float32().AsAny(), rapid.Float64().AsAny(),
		rapid.SampledFrom([]any{
			math.Copysign(0, -1), math.SmallestNonzeroFloat64, math.MaxFloat64,
			float32(math.Copysign(0, -1)), float32(math.SmallestNonzeroFloat32), float32(math.MaxFloat32),
			int64(math.MinInt64), int64(math.MaxInt64), "NaN", "null", "",
		}),
		rapid.String().AsAny(), rapid.SliceOf(rapid.Byte()).AsAny(),
		rapid.Custom(func(t *rapid.T) any {
			return model.Decimal{Scale: rapid.Uint8().Draw(t, "scale"), Value: rapid.Int32().Draw(t, "value")}
		}),
		rapid.Custom(func(t *rapid.T) any {
			return time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(t, "unix"), 0).UTC()
		}),
	}
	if depth > 1 {
		kinds = append(kinds,
			rapid.Deferred(func() *rapid.Generator[any] {
				return rapid.SliceOfN(headerValue(depth-1), 0, 4).AsAny()
			}),
			rapid.Deferred(func() *rapid.Generator[any] {
				return rapid.MapOfN(headerNameNested(), headerValue(depth-1), 0, 4).AsAny()
			}))
	}
	return rapid.OneOf(kinds...)
}

// headerNameNested may also be a name that is refused at the top level only.
func headerNameNested() *rapid.Generator[string] {
	return rapid.OneOf(shortText(), rapid.SampledFrom([]string{"CC", "x-transmsg-a"}))
}

// anyMessage generates messages that Normalize lets through.
func anyMessage() *rapid.Generator[model.Message] {
	return rapid.Custom(func(t *rapid.T) model.Message {
		text := func(name string) string { return shortText().Draw(t, name) }
		m := model.Message{
			Key:        text("key"),
			Exchange:   "x" + strings.Map(dropBreaks, rapid.StringN(0, -1, 254).Draw(t, "exchange")),
			RoutingKey: text("routing key"),
			Body:       rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
			Headers:    rapid.MapOfN(headerName(), headerValue(4), 0, 6).Draw(t, "headers"),
			Properties: model.Properties{
				ContentType: text("content type"), ContentEncoding: text("content encoding"),
				Priority: rapid.Uint8().Draw(t, "priority"), CorrelationID: text("correlation id"),
				ReplyTo: text("reply to"), Type: text("type"), AppID: text("app id"),
				Expiration: rapid.SampledFrom([]string{"", "0", "60000", "4294967295"}).Draw(t, "expiration"),
			},
			AllowUnroutable: rapid.Bool().Draw(t, "allow unroutable"),
		}
		if rapid.Bool().Draw(t, "has timestamp") {
			m.Properties.Timestamp = time.Unix(rapid.Int64Range(0, 1<<40).Draw(t, "timestamp"), 0)
		}
		return m
	})
}

func dropBreaks(r rune) rune {
	if r == 0 || r == '\r' || r == '\n' {
		return -1
	}
	return r
}
