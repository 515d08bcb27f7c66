package model_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/transmsg/transmsg/model"
)

// FuzzDecodeProperties feeds the codec arbitrary rows: it must not panic, its error is
// one of two, and what it takes is exactly what is stored again and sent.
func FuzzDecodeProperties(f *testing.F) {
	m := everyType()
	m, err := model.Normalize(m, testNow(), model.Limits{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(model.EncodeProperties(&m, true))
	f.Fuzz(func(t *testing.T, in []byte) {
		var first model.Message
		if err := model.DecodeProperties(in, &first); err != nil {
			if !errors.Is(err, model.ErrCorrupt) && !errors.Is(err, model.ErrNewerCodec) {
				t.Fatalf("got %v, want ErrCorrupt or ErrNewerCodec", err)
			}
			return
		}
		again := model.EncodeProperties(&first, false)
		var second model.Message
		if err := model.DecodeProperties(again, &second); err != nil {
			t.Fatalf("decode %s: %v", again, err)
		}
		if diff := diffExact(first, second); diff != "" {
			t.Fatalf("(-first +second):\n%s", diff)
		}
		if third := model.EncodeProperties(&second, false); !bytes.Equal(again, third) {
			t.Fatalf("got %s, want %s", third, again)
		}
		checkNormalized(t, &first)
		model.HeaderFrameSize(&first)
		_ = model.Check(&first, model.Limits{})
	})
}

// checkNormalized checks that the headers are what NormalizeHeaders would make of them,
// where it does not refuse their names, as Check does too.
func checkNormalized(t *testing.T, m *model.Message) {
	t.Helper()
	headers, err := model.NormalizeHeaders(m.Headers)
	if err != nil {
		m := *m
		m.ID = "0190a5b2-7a3e-7c11-8f00-000000000001"
		if model.Check(&m, model.Limits{FrameMax: 1 << 30}) == nil {
			t.Fatalf("normalize decoded headers: %v, and Check does not object", err)
		}
		return
	}
	if diff := diffHeaders(m.Headers, headers); diff != "" {
		t.Fatalf("(-decoded +normalized):\n%s", diff)
	}
}
