package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/transmsg/transmsg/model"
)

// letters stores n dead letters of a queue, sorted by id.
func letters(t *testing.T, s Letters, queue string, n int, edit ...func(*model.DeadLetter)) []model.DeadLetter {
	t.Helper()
	list := make([]model.DeadLetter, n)
	for i := range list {
		list[i] = letter(model.NewID(), fmt.Appendf(nil, "body %d", i))
		list[i].ID, list[i].Queue, list[i].Cause = model.NewID(), queue, "permanent"
		for _, f := range edit {
			f(&list[i])
		}
	}
	if err := s.Collect(bound(t), list); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list, func(a, b model.DeadLetter) int { return cmpIDs(a.ID, b.ID) })
	return list
}

func cmpIDs(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func idsOf(list []model.DeadLetter) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].ID
	}
	return out
}

func letterAct(f model.LetterFilter, ids ...string) model.LetterAct {
	return model.LetterAct{
		LetterSelection: model.LetterSelection{IDs: ids, Filter: f}, Actor: actor, Reason: "the cause is mended",
	}
}

func replayLetters(t *testing.T, s Letters, a model.LetterAct, want int) {
	t.Helper()
	n, refused, err := s.ReplayLetters(bound(t), a, model.LetterReplay{})
	if err != nil || n != want || len(refused) > 0 {
		t.Fatalf("replayed %d, refused %v, %v, want %d", n, refused, err, want)
	}
}

// testLettersList: pages follow each other without a gap, and each filter leaves out what does not match.
func testLettersList(t *testing.T, s Letters) {
	all := letters(t, s, "a", 25)
	other := letters(t, s, "b\xff", 1, func(l *model.DeadLetter) {
		l.Exchange, l.RoutingKey, l.Cause, l.Key, l.Service = "x\x00", "k\xfe", "crash", "order-9", "bank"
		l.WireID, l.Parent, l.Unreplayable = []byte("w\xff"), model.NewID(), "no"
	})[0]
	var got []string
	for f := (model.LetterFilter{Queue: "a", Limit: 10}); ; {
		page, err := s.ListLetters(bound(t), f)
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, idsOf(page)...); len(page) < 10 {
			break
		}
		f.After = page[9].ID
	}
	if diff := cmp.Diff(idsOf(all), got); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	for name, f := range map[string]model.LetterFilter{
		"queue": {Queue: "b\xff"}, "exchange": {Exchange: "x\x00"}, "key": {RoutingKey: "k\xfe"},
		"cause":        {Cause: "crash"},
		"business key": {Key: "order-9"}, "service": {Service: "bank"}, "wire id": {WireID: "w\xff"},
		"parent": {Parent: other.Parent}, "all": {Queue: "b\xff", Status: model.LetterOpen, Cause: "crash"},
	} {
		page, err := s.ListLetters(bound(t), f)
		if err != nil || len(page) != 1 || page[0].ID != other.ID || page[0].Payload != nil {
			t.Errorf("%s: %d letters, %v, want the one, without its body", name, len(page), err)
		}
	}
	for name, f := range map[string]model.LetterFilter{
		"older": {OlderThan: hour}, "other status": {Status: model.LetterParked}, "replayable": {
			Queue:      "b\xff",
			Replayable: true,
		},
		"trailing space": {Service: "bank "}, "bytes alike": {Queue: "b\xfe"},
	} {
		if page, err := s.ListLetters(bound(t), f); err != nil || len(page) != 0 {
			t.Errorf("%s: %d letters, %v, want none", name, len(page), err)
		}
	}
	if _, err := s.ListLetters(bound(t), model.LetterFilter{Limit: -1}); err == nil {
		t.Error("a limit of -1 is taken")
	}
}

// testLettersSelect: a preview counts what an act would touch, and changes nothing.
func testLettersSelect(t *testing.T, s Letters) {
	a := letters(t, s, "a", 7, func(l *model.DeadLetter) { l.FirstAt = 5 }) // long ago
	b := letters(t, s, "b", 3, func(l *model.DeadLetter) { l.FirstAt = 0 })
	parked := letters(t, s, "b", 1, func(l *model.DeadLetter) { l.Replays, l.Status = 1, model.LetterParked })
	p, err := s.SelectLetters(bound(t), model.LetterSelection{Filter: model.LetterFilter{Service: "shop"}}, hour)
	if err != nil || p.Rows != 11 || p.More || p.Old != 7 || len(p.Samples) != 5 {
		t.Errorf("preview %+v, %v, want 11 rows, 7 old, 5 samples", p, err)
	}
	var size int64
	for _, l := range slices.Concat(a, b, parked) {
		size += int64(l.Size)
	}
	want := []model.LetterCount{
		{Status: model.LetterOpen, Queue: "a", Cause: "permanent", Rows: 7},
		{Status: model.LetterOpen, Queue: "b", Cause: "permanent", Rows: 3},
		{Status: model.LetterParked, Queue: "b", Cause: "permanent", Rows: 1},
	}
	if routes := p.Routes; len(routes) != 1 || routes[0].Exchange != "x" || routes[0].RoutingKey != "k" {
		t.Errorf("routes %+v, want one", routes)
	}
	if diff := cmp.Diff(want, p.Causes); diff != "" || p.Bytes != size {
		t.Errorf("%d bytes, want %d; causes (-want +got):\n%s", p.Bytes, size, diff)
	}
	sel := model.LetterSelection{
		IDs:    idsOf(slices.Concat(a, parked)),
		Filter: model.LetterFilter{Status: model.LetterOpen}, Max: 4,
	}
	p, err = s.SelectLetters(bound(t), sel, 0)
	if err != nil || p.Rows != 4 || !p.More || p.Old != 0 || p.Others[model.LetterParked] != 1 {
		t.Errorf("preview %+v, %v, want 4 rows of more, and one PARKED beside them", p, err)
	}
	if _, err := s.SelectLetters(bound(t), model.LetterSelection{}, 0); err == nil {
		t.Error("a selection of nothing is taken for all")
	}
	groups, err := s.LetterGroups(bound(t), model.LetterFilter{})
	if err != nil || len(groups) != 3 {
		t.Fatalf("groups %+v, %v, want 3", groups, err)
	}
	g := groups[0]
	if g.Rows != 7 || g.Queue != "a" || g.Cause != "permanent" || g.Status != model.LetterOpen || g.Service != "shop" ||
		g.SampleID != a[0].ID || g.SampleKey != "order-1" || g.First == 0 || g.Last < g.First {
		t.Errorf("group %+v", g)
	}
}

// testLettersDiscard: what waits is discarded, stays with its content, and is not replayed any more.
func testLettersDiscard(t *testing.T, s Letters) {
	list := letters(t, s, "a", 600)
	done := 0
	a := letterAct(model.LetterFilter{Queue: "a"})
	a.Progress = func(n int) { done = n }
	if n, err := s.DiscardLetters(bound(t), a); err != nil || n != 600 || done != 600 {
		t.Fatalf("discarded %d, progress %d, %v, want 600", n, done, err)
	}
	if n, err := s.DiscardLetters(bound(t), a); err != nil || n != 0 {
		t.Errorf("discarded again: %d, %v, want 0", n, err)
	}
	l, events, _, err := s.Letter(bound(t), list[599].ID)
	if err != nil || l.Status != model.LetterDiscarded || string(l.Payload) == "" || l.Version != 1 {
		t.Errorf("%s, version %d, body %q, %v", l.Status, l.Version, l.Payload, err)
	}
	if len(events) != 1 || events[0].Kind != model.EventDiscard || events[0].Actor != actor ||
		events[0].Text != `the cause is mended [queue="a"]` || events[0].Code != "permanent" {
		t.Errorf("events %+v", events)
	}
	replayLetters(t, s, letterAct(model.LetterFilter{}, list[0].ID), 0)
	if _, err := s.DiscardLetters(bound(t), letterAct(model.LetterFilter{Status: model.LetterReplayed})); err == nil {
		t.Error("REPLAYED letters can be discarded")
	}
	if _, err := s.DiscardLetters(bound(t), letterAct(model.LetterFilter{})); err == nil {
		t.Error("an act that names nothing takes everything")
	}
	if _, err := s.DiscardLetters(bound(t), model.LetterAct{LetterSelection: a.LetterSelection}); err == nil {
		t.Error("an act without an actor is taken")
	}
}
