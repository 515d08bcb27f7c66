package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
)

// testLetterAlerts: an alert is owed from the storing on, is one claimer's while its lease lasts, is told once marked,
// and is owed by no letter that does not wait.
func testLetterAlerts(t *testing.T, s Letters) {
	list := letters(t, s, "q", 4)
	claimed := func(lease time.Duration) []string {
		t.Helper()
		got, err := s.ClaimLetters(bound(t), model.DeadClaim{Instance: instance, Lease: lease, MaxRows: 100})
		if err != nil {
			t.Fatal(err)
		}
		out := idsOf(got)
		slices.Sort(out)
		return out
	}
	if n, err := s.DiscardLetters(bound(t), letterAct(model.LetterFilter{}, list[0].ID)); err != nil || n != 1 {
		t.Fatalf("discarded %d, %v", n, err)
	}
	if got := claimed(time.Millisecond); !slices.Equal(got, idsOf(list[1:])) {
		t.Errorf("claimed %v, want the three that wait", got)
	}
	waitMS(t, s)
	if got := claimed(hour); !slices.Equal(got, idsOf(list[1:])) {
		t.Errorf("claimed %v after the lease, want the three again", got)
	}
	if got := claimed(hour); len(got) != 0 {
		t.Errorf("claimed %v while they are leased, want none", got)
	}
	body := []byte("corrected")
	if err := s.EditLetter(bound(t), list[1].ID, model.LetterEdit{Body: &body, Actor: actor}); err != nil {
		t.Fatal(err)
	}
	replayLetters(t, s, letterAct(model.LetterFilter{}, list[2].ID), 1)
	var keys []model.RowKey
	for i := range list {
		keys = append(keys, model.RowKey{ID: list[i].ID, Epoch: list[i].Epoch})
	}
	if n, err := s.MarkLetters(bound(t), keys, time.Millisecond); err != nil || n != 1 {
		t.Errorf("marked %d, %v, want the one that waits as it was", n, err)
	}
	waitMS(t, s)
	if got := claimed(hour); !slices.Equal(got, idsOf(list[3:])) {
		t.Errorf("claimed %v, want the one whose time has come", got)
	}
	if n, err := s.MarkLetters(bound(t), keys, never); err != nil || n != 1 {
		t.Errorf("marked %d, %v", n, err)
	}
	if got := claimed(hour); len(got) != 0 {
		t.Errorf("claimed %v, want none: it was told", got)
	}
}
