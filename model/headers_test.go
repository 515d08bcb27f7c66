package model_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/transmsg/transmsg/model"
)

type (
	namedString string
	namedInt    int16
	namedBytes  []byte
	namedByte   byte
	namedMap    map[namedString]int
	namedList   []bool
)

func TestC17_GoTypesAreConverted(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		in, want any
	}{
		{"nil", nil, nil},
		{"int", int(5), int64(5)},
		{"int above 2^31", int(1) << 40, int64(1) << 40},
		{"uint", uint(5), int64(5)},
		{"uint64", uint64(math.MaxInt64), int64(math.MaxInt64)},
		{"uintptr", uintptr(5), int64(5)},
		{
			"small words",
			[]any{int8(1), uint8(1), int16(1), uint16(1), int32(1), uint32(1)},
			[]any{int8(1), uint8(1), int16(1), uint16(1), int32(1), uint32(1)},
		},
		{"float32", float32(0.1), float32(0.1)},
		{"negative zero", math.Copysign(0, -1), math.Copysign(0, -1)},
		{"strings", []string{"a", "b"}, []any{"a", "b"}},
		{"nil strings", []string(nil), []any{}},
		{"nil list", []any(nil), []any{}},
		{"nil map", map[string]any(nil), map[string]any{}},
		{"typed map", map[string]int{"a": 1}, map[string]any{"a": int64(1)}},
		{"map of lists", map[string][]uint{"a": {1}}, map[string]any{"a": []any{int64(1)}}},
		{"bytes", []byte("a"), []byte("a")},
		{"nil bytes", []byte(nil), []byte{}},
		{"byte array", [3]byte{1, 2, 3}, []byte{1, 2, 3}},
		{"array", [2]string{"a", "b"}, []any{"a", "b"}},
		{"time", time.Unix(5, 999).In(time.FixedZone("x", 60)), time.Unix(5, 0).UTC()},
		{"decimal", model.Decimal{Scale: 2, Value: -5}, model.Decimal{Scale: 2, Value: -5}},
		{
			"named",
			[]any{namedString("a"), namedInt(1), namedBytes("b"), namedByte(7), namedList{true}, namedMap{"k": 1}},
			[]any{"a", int16(1), []byte("b"), uint8(7), []any{true}, map[string]any{"k": int64(1)}},
		},
		{"list of named bytes", []namedByte{1, 2}, []byte{1, 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := model.NormalizeHeaders(map[string]any{"h": tc.in})
			if err != nil {
				t.Fatal(err)
			}
			if diff := diffHeaders(map[string]any{"h": tc.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestC17_OtherGoTypesAreRefused(t *testing.T) {
	t.Parallel()
	number := 5
	for _, tc := range []struct {
		name string
		in   any
		says string
	}{
		{"uint64 above", uint64(math.MaxInt64) + 1, "9223372036854775808"},
		{"uint64 max", uint64(math.MaxUint64), "18446744073709551615"},
		{"duration", time.Second, "time.Duration"},
		{"struct", struct{ A int }{1}, "struct { A int }"},
		{"pointer", &number, "*int"},
		{"nil pointer", (*int)(nil), "*int"},
		{"function", func() {}, "func()"},
		{"channel", make(chan int), "chan int"},
		{"complex", 1i, "complex128"},
		{"error", fmt.Errorf("x"), "*errors.errorString"},
		{"int keys", map[int]string{1: "a"}, "string keys"},
		{"any keys", map[any]any{"a": 1}, "string keys"},
		{"not UTF-8", "a\xff", "UTF-8"},
		{"named not UTF-8", namedString("a\xff"), "UTF-8"},
		{"NaN", math.NaN(), "NaN"},
		{"infinity", float32(math.Inf(-1)), "-Inf"},
		{"named float", namedFloat(math.Inf(1)), "+Inf"},
		{"in a list", []any{1, []any{time.Second}}, "element 1: element 0: is a time.Duration"},
		{"in a table", map[string]any{"a": map[string]any{"b": 1i}}, `table field "a": table field "b"`},
		{"typed durations", []time.Duration{1}, "time.Duration"},
		{"list too long", make([]any, model.MaxElements+1), "8001 entries, the limit is 8000"},
		{"typed list too long", make([]int, model.MaxElements+1), "8001 entries"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := model.NormalizeHeaders(map[string]any{"h": tc.in})
			wantInvalid(t, err, `headers["h"]`, tc.says)
		})
	}
}

type namedFloat float64

func TestC17_TablesAreBounded(t *testing.T) {
	t.Parallel()
	table := func(n int) map[string]any {
		out := map[string]any{}
		for i := range n {
			out[fmt.Sprint(i)] = nil
		}
		return out
	}
	if _, err := model.NormalizeHeaders(table(model.MaxElements)); err != nil {
		t.Error(err)
	}
	_, err := model.NormalizeHeaders(table(model.MaxElements + 1))
	wantInvalid(t, err, "headers", "8001 entries, the limit is 8000")
	_, err = model.NormalizeHeaders(map[string]any{"t": table(model.MaxElements + 1)})
	wantInvalid(t, err, `headers["t"]`, "8001 entries, the limit is 8000")
	if _, err := model.NormalizeHeaders(map[string]any{"x": make([]byte, model.MaxElements+1)}); err != nil {
		t.Errorf("bytes are no list: %v", err)
	}
}

func TestC17_NestingIsBounded(t *testing.T) {
	t.Parallel()
	if _, err := model.NormalizeHeaders(map[string]any{"h": nested(model.MaxDepth)}); err != nil {
		t.Error(err)
	}
	_, err := model.NormalizeHeaders(map[string]any{"h": nested(model.MaxDepth + 1)})
	wantInvalid(t, err, `headers["h"]`, "deeper than 32")

	cycle := map[string]any{}
	cycle["a"], cycle["b"] = cycle, cycle
	_, err = model.NormalizeHeaders(cycle)
	if err == nil || !strings.Contains(err.Error(), "deeper than 32") {
		t.Errorf("cyclic map: got %v", err)
	}
	list := make([]any, 2)
	list[0], list[1] = list, list
	_, err = model.NormalizeHeaders(map[string]any{"h": list})
	wantInvalid(t, err, `headers["h"]`, "deeper than 32")
}

// Headers whose parts are shared take little memory and would take a copy without end.
func TestC17_SharedValuesAreBounded(t *testing.T) {
	t.Parallel()
	doubled := map[string]any{}
	for range 24 { // 2^24 values
		doubled = map[string]any{"a": doubled, "b": doubled}
	}
	wide := []any{}
	for range 3 { // 8000^3
		row := make([]any, 8000)
		for i := range row {
			row[i] = wide
		}
		wide = row
	}
	bytes, text := make([]byte, 1<<17), strings.Repeat("x", 1<<17)
	for name, v := range map[string]any{
		"tables": doubled, "lists": wide, "bytes": slices.Repeat([]any{bytes}, 8),
		"texts": slices.Repeat([]string{text}, 8), "named bytes": slices.Repeat([]namedBytes{bytes}, 8),
		"names": slices.Repeat([]any{map[string]any{text[:255]: 1}}, 4200),
	} {
		_, err := model.NormalizeHeaders(map[string]any{"h": v})
		var invalid *model.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != `headers["h"]` ||
			!strings.Contains(err.Error(), "brings the headers above 1048576 bytes") {
			t.Errorf("%s: got %.200v, want that they are too much", name, err)
		}
	}
	if _, err := model.NormalizeHeaders(map[string]any{"h": slices.Repeat([]any{bytes}, 7)}); err != nil {
		t.Errorf("less than the bound: %v", err)
	}
}

func TestC17_NormalizeHeadersIsIdempotent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.MapOfN(headerName(), headerValue(4), 1, 6).Draw(t, "headers")
		got, err := model.NormalizeHeaders(in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := diffHeaders(in, got); diff != "" {
			t.Fatalf("(-in +out):\n%s", diff)
		}
	})
}
