package model_test

import (
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/transmsg/transmsg/model"
)

func TestJSON(t *testing.T) {
	t.Parallel()
	m, err := model.JSON("orders", "paid", map[string]int{"id": 7})
	if err != nil || m.Exchange != "orders" || m.RoutingKey != "paid" || string(m.Body) != `{"id":7}` ||
		m.Properties.ContentType != "application/json" {
		t.Errorf("got %+v, %v", m, err)
	}
	if _, err := model.JSON("orders", "paid", math.NaN()); err == nil || !strings.Contains(err.Error(), "encode body") {
		t.Errorf("got %v, want an error of encode body", err)
	}
}

func TestCleanText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOfN(rapid.Byte(), 0, 2*model.MaxErrorText).Draw(t, "bytes"))
		got := model.CleanText(in)
		if len(got) > model.MaxErrorText || !utf8.ValidString(got) || strings.Contains(got, "\x00") {
			t.Fatalf("got %q", got)
		}
		if model.CleanText(got) != got {
			t.Fatalf("cleaning again changes %q", got)
		}
	})
	if got := model.CleanText(strings.Repeat("é", 600)); got != strings.Repeat("é", 512) {
		t.Errorf("got %d bytes", len(got))
	}
	if got := model.CleanText("a" + strings.Repeat("é", 600)); got != "a"+strings.Repeat("é", 511) {
		t.Errorf("not cut on a rune: %d bytes", len(got))
	}
}

func TestOutcomeString(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]model.Outcome{
		"acked":                   {Kind: model.Acked, Text: "ignored"},
		"nacked (nack)":           {Kind: model.Nacked, Code: model.CodeNack},
		"returned (312 NO_ROUTE)": {Kind: model.Returned, Code: model.CodeNoRoute, Text: "NO_ROUTE"},
		"deferred":                {Kind: model.Deferred},
		"kind(0)":                 {},
		"kind(9)":                 {Kind: 9},
	} {
		if got := o.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if text, err := model.Unknown.MarshalText(); err != nil || string(text) != "unknown" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestErrorsNameKindAndCause(t *testing.T) {
	t.Parallel()
	err := error(&model.StoreError{Kind: model.ErrStoreUnknown, IDs: []string{"a", "b", "c", "d"}, Err: io.EOF})
	if !errors.Is(err, model.ErrStoreUnknown) || !errors.Is(err, io.EOF) || errors.Is(err, model.ErrNotStored) {
		t.Errorf("got the wrong kinds of %v", err)
	}
	if got, want := err.Error(), "may or may not be stored (ids [a b c] and 1 more): EOF"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := (&model.StoreError{Kind: model.ErrDead, IDs: []string{"a"}}).Error(),
		"the id exists and is DEAD (ids [a])"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	batch := &model.InvalidError{Field: "body", Reason: "is bad", Index: 3}
	if got, want := batch.Error(), "message 3: body is bad"; got != want || !errors.Is(batch, model.ErrInvalid) {
		t.Errorf("got %q, want %q", got, want)
	}
}
