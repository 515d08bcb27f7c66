package model_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/transmsg/transmsg/model"
)

// What the broker delivered stays as it is beside an edit, also what no publisher may write, and a value that cannot be
// sent changes nothing.
func TestLetterEditLeavesWhatTheBrokerWrote(t *testing.T) {
	t.Parallel()
	death := []any{map[string]any{"queue": "q", "reason": "rejected", "count": int64(1), "time": time.Unix(9, 0).UTC()}}
	m := model.Message{ID: "not a uuid", Headers: map[string]any{
		"x-death": death, "CC": []any{"other"}, "bytes": "\xff", model.HeaderRevision: int64(3), "a": int32(1),
	}}
	r := model.Rejected{Source: "dead", Properties: model.EncodeWire(&m), Body: []byte("body")}
	l := r.Letter("shop")
	before := l
	headers := l.Properties.View().Headers
	headers["a"], headers["b"] = int32(2), "new"
	delete(headers, "bytes")
	if err := (&model.LetterEdit{Headers: &headers}).Apply(&l); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"x-death": death, "CC": []any{"other"}, model.HeaderRevision: int64(3), "a": int32(2), "b": "new",
	}
	v := l.Properties.View()
	if diff := cmp.Diff(want, v.Headers); diff != "" || v.ID != "not a uuid" {
		t.Errorf("id %q; headers (-want +got):\n%s", v.ID, diff)
	}
	if string(l.Original.Properties) != string(before.Properties) || string(l.Original.Payload) != "body" {
		t.Errorf("the original is %+v", l.Original)
	}
	long := model.Properties{Type: string(make([]byte, 256))}
	after := l
	if err := (&model.LetterEdit{Properties: &long}).Apply(&after); err == nil {
		t.Error("a type of 256 bytes is taken")
	}
	if diff := cmp.Diff(l, after); diff != "" {
		t.Errorf("a refused edit changed (-want +got):\n%s", diff)
	}
}
