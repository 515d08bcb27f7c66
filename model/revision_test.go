package model_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
)

// The library's own headers come from its own fields alone, also in rows written by hand.
func TestF3_OwnHeadersAreReserved(t *testing.T) {
	t.Parallel()
	for _, value := range []any{int64(7), "7", int64(-1), nil} {
		for _, name := range []string{
			model.HeaderRevision, model.HeaderStoredAt, "transmsg-other", "TransMsg-Revision",
		} {
			headers := map[string]any{name: value}
			_, err := model.Normalize(model.Message{RoutingKey: "q", Headers: headers}, testNow(), model.Limits{})
			wantInvalid(t, err, `headers["`+name+`"]`, "is refused")
			m := normalize(t, model.Message{RoutingKey: "q"})
			m.Headers = headers
			own := name == model.HeaderRevision || name == model.HeaderStoredAt
			if err := model.Check(&m, model.Limits{}); (err == nil) != (own && value == any(int64(7))) {
				t.Errorf("stored with %s = %v: %v", name, value, err)
			}
		}
	}
	_, err := model.Normalize(model.Message{RoutingKey: "q", Revision: -1}, testNow(), model.Limits{})
	wantInvalid(t, err, "revision", "negative")
}

// The revision is content, the time of storing is not: a repeated Publish is recognised.
func TestF3_RevisionIsContentAndTheTimeOfStoringIsNot(t *testing.T) {
	t.Parallel()
	row := func(revision int64, at time.Time) model.TransMessage {
		m := model.Message{ID: someID, RoutingKey: "q", Revision: revision}
		m, err := model.Normalize(m, testNow(), model.Limits{})
		if err == nil && !at.IsZero() {
			err = model.StampStored(&m, at, model.Limits{})
		}
		if err != nil {
			t.Fatal(err)
		}
		return model.NewTransMessage("orders", &m, true)
	}
	one := row(7, testNow())
	for _, same := range []model.TransMessage{row(7, testNow().Add(time.Hour)), row(7, time.Time{})} {
		if !model.SameContent(&one, &same) {
			t.Error("stored at another time: taken for another message")
		}
	}
	if other := row(8, testNow()); model.SameContent(&one, &other) {
		t.Error("revisions 7 and 8 are one message")
	}
	m, err := one.Message()
	if err != nil || m.Revision != 7 || m.Headers[model.HeaderRevision] != int64(7) ||
		m.Headers[model.HeaderStoredAt] != testNow().UnixMilli() {
		t.Errorf("read back: revision %d, headers %v, %v", m.Revision, m.Headers, err)
	}
}

// An edit replaces the caller's headers and keeps the library's own, which it may name as
// they were and not otherwise.
func TestF3_AnEditKeepsOwnHeaders(t *testing.T) {
	t.Parallel()
	m := normalize(t, model.Message{RoutingKey: "q", Revision: 7, Headers: map[string]any{"a": "b"}})
	row := model.NewTransMessage("orders", &m, false)
	for _, headers := range []map[string]any{
		{"c": "d"}, {"c": "d", model.HeaderRevision: int64(7)},
	} {
		edited := row
		if err := (&model.Edit{Headers: &headers}).Apply(&edited); err != nil {
			t.Fatal(err)
		}
		got, err := edited.Message()
		if err != nil || got.Revision != 7 || len(got.Headers) != 2 || got.Headers["c"] != "d" {
			t.Errorf("edited by %v: %+v, %v", headers, got.Headers, err)
		}
	}
	for _, value := range []any{int64(8), "7"} {
		edited, headers := row, map[string]any{model.HeaderRevision: value}
		if err := (&model.Edit{Headers: &headers}).Apply(&edited); !errors.Is(err, model.ErrInvalid) {
			t.Errorf("another revision %v by a header: %v, want it refused", value, err)
		}
		if !bytes.Equal(edited.Properties, row.Properties) {
			t.Errorf("the refused edit changed the row")
		}
	}
}
