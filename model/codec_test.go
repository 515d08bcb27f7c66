package model_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/transmsg/transmsg/model"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// everyType is a message with all properties and a header of every AMQP type.
func everyType() model.Message {
	return model.Message{
		ID: "0190a5b2-7a3e-7c11-8f00-000000000001", Exchange: "orders", RoutingKey: "order.paid",
		Properties: model.Properties{
			ContentType: "application/json", ContentEncoding: "gzip", Priority: 9,
			CorrelationID: "c-1", ReplyTo: "replies", Expiration: "60000", Type: "OrderPaid",
			AppID: "shop", Timestamp: time.Unix(1790000000, 0),
		},
		AllowUnroutable: true,
		Headers: map[string]any{
			"nil": nil, "bool": true, "int8": int8(-128), "uint8": uint8(255),
			"int16": int16(math.MinInt16), "uint16": uint16(math.MaxUint16),
			"int32": int32(math.MinInt32), "uint32": uint32(math.MaxUint32),
			"int64 min": int64(math.MinInt64), "int64 max": int64(math.MaxInt64),
			"float32": float32(0.1), "float32 tiny": float32(math.SmallestNonzeroFloat32), "float64": 1e300,
			"-0": math.Copysign(0, -1), "tiny": math.SmallestNonzeroFloat64,
			"string": `a "quoted" \ <b>`, "controls": "\x00\x01\t\n\u2028\u007f", "empty string": "",
			"bytes": []byte{0, 1, 254, 255}, "empty bytes": []byte{},
			"decimal": model.Decimal{Scale: 255, Value: math.MinInt32},
			"time":    time.Unix(-1, 0).UTC(), "größe": "šířka 🐰", "": "empty name", "tab\tname": int32(1),
			"array": []any{"a", int64(1), nil, []any{}, map[string]any{"CC": "nested"}}, "empty array": []any{},
			"table": map[string]any{"x": map[string]any{"y": []byte("z")}}, "empty table": map[string]any{},
		},
	}
}

func TestC20_CodecKeepsEveryType(t *testing.T) {
	t.Parallel()
	want := normalize(t, everyType())
	var got model.Message
	if err := model.DecodeProperties(model.EncodeProperties(&want, false), &got); err != nil {
		t.Fatal(err)
	}
	if diff := diffHeaders(want.Headers, got.Headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if got.Properties != want.Properties || got.AllowUnroutable != want.AllowUnroutable {
		t.Errorf("got %+v, want %+v", got.Properties, want.Properties)
	}
}

func TestC20_RowKeepsAnyMessage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := normalize(t, anyMessage().Draw(t, "message"))
		row := model.NewTransMessage("svc", &want, rapid.Bool().Draw(t, "defaulted"))
		if !json.Valid(row.Properties) {
			t.Fatalf("not JSON: %s", row.Properties)
		}
		got, err := row.Message()
		if err != nil {
			t.Fatal(err)
		}
		if diff := diffExact(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestEncodePropertiesGolden(t *testing.T) {
	t.Parallel()
	m := normalize(t, everyType())
	got := append(model.EncodeProperties(&m, true), '\n')
	path := filepath.Join("testdata", "properties.golden")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the stored form changed: old rows would differ; raise the codec version, then -update\n"+
			"got  %s\nwant %s", got, want)
	}
	var back model.Message
	if err := model.DecodeProperties(want, &back); err != nil {
		t.Errorf("decode golden: %v", err)
	}
}

func TestEncodePropertiesIsDeterministic(t *testing.T) {
	t.Parallel()
	want := []byte(nil)
	for range 50 {
		m := normalize(t, everyType()) // fresh maps, so another order of iteration
		got := model.EncodeProperties(&m, false)
		if want != nil && !bytes.Equal(got, want) {
			t.Fatalf("got %s, want %s", got, want)
		}
		want = got
	}
}

func TestEncodePropertiesOfNothing(t *testing.T) {
	t.Parallel()
	if got := string(model.EncodeProperties(&model.Message{}, false)); got != `{"v":1}` {
		t.Errorf("got %s", got)
	}
}
