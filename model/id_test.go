package model_test

import (
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/transmsg/transmsg/model"
)

// These never change: another id is another message.
func TestStableIDGoldenValues(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		want, namespace string
		parts           []string
	}{
		{"2a986222-2e0e-52a9-8064-61ff703e97ab", "", nil},
		{"c8b76170-f52c-53b6-9f7b-ac759fd9d953", "order-paid", nil},
		{"8f6d940c-b0bc-5c46-8776-ed6ac15b59da", "order-paid", []string{""}},
		{"518471ca-fd14-5102-8075-749749af0f62", "order-paid", []string{"4711"}},
		{"b4aebf56-5b78-50c1-96f5-7962d51d7ec5", "chain-event", []string{"1", "0xabc", "7"}},
		{"f19aeef4-64ec-5071-ae0e-f78150834553", "größe", []string{"\x00", "🐰"}},
	} {
		if got := model.StableID(tc.namespace, tc.parts...); got != tc.want {
			t.Errorf("StableID(%q, %q) = %s, want %s", tc.namespace, tc.parts, got, tc.want)
		}
	}
}

func TestStableIDSeparatesNamespaceAndParts(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for i, in := range [][]string{
		{"n"},
		{"n", ""},
		{"n", "", ""},
		{"n", "ab", "c"},
		{"n", "a", "bc"},
		{"n", "abc"},
		{"na", "bc"},
		{"", "nabc"},
		{"n", "c", "ab"},
		{"n", "a", "b"},
		{"n", "\x00\x00\x00\x00\x00\x00\x00\x00"},
		{"n", "a\x00\x00\x00\x00\x00\x00\x00\x01b"},
	} {
		id := model.StableID(in[0], in[1:]...)
		if before, ok := seen[id]; ok {
			t.Errorf("inputs %d and %d share %s", before, i, id)
		}
		seen[id] = i
	}
}

func TestStableIDIsAValidMessageID(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := model.StableID(rapid.String().Draw(t, "namespace"), rapid.SliceOf(rapid.String()).Draw(t, "parts")...)
		got := normalize(t, model.Message{RoutingKey: "q", ID: id})
		if got.ID != id || uuid.MustParse(id).Version() != 5 {
			t.Errorf("got %s", id)
		}
	})
}

func TestNewIDRises(t *testing.T) {
	t.Parallel()
	last := ""
	for range 1000 {
		id := model.NewID()
		if id <= last || uuid.MustParse(id).Version() != 7 {
			t.Fatalf("got %s after %s", id, last)
		}
		last = id
	}
}
