package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/transmsg/transmsg/model"
)

// testLetterReplay: one letter becomes one READY row for the queue that gave it up, with its wire id and its lineage.
func testLetterReplay(t *testing.T, s Letters) {
	l := letters(t, s, "payments", 1)[0]
	letters(t, s, "others", 1)
	replayLetters(t, s, letterAct(model.LetterFilter{Queue: "payments"}), 1)
	got := stored(t, s, l.ID)
	if got.Status != model.LetterReplayed || got.ReplayID == "" || got.ReplayedAt == 0 || got.Version != 1 ||
		got.Became != model.BecameWaiting || string(got.Payload) != "body 0" {
		t.Errorf("letter %+v", got)
	}
	row, events := show(t, s, got.ReplayID)
	m, err := row.Message()
	if err != nil || row.Status != model.Ready || row.Service != "shop" || row.MessageKey != "order-1" ||
		row.Exchange != "" || row.RoutingKey != "payments" || string(row.Payload) != "body 0" || !row.IsReplay() ||
		m.ID != string(l.WireID) || m.Headers[model.HeaderReplayOf] != l.ID ||
		m.Headers[model.HeaderReplays] != int64(1) {
		t.Errorf("row %+v, message %+v, %v", row, m, err)
	}
	if len(events) != 1 || events[0].Kind != model.EventReplay || events[0].Actor != actor ||
		!strings.Contains(events[0].Text, l.ID) {
		t.Errorf("the row's events %+v", events)
	}
	_, events, _, err = s.Letter(bound(t), l.ID)
	if err != nil || len(events) != 1 || events[0].Kind != model.EventReplay || !strings.Contains(events[0].Text,
		row.ID) ||
		!strings.Contains(events[0].Text, "the cause is mended") {
		t.Errorf("the letter's events %+v, %v", events, err)
	}
	if c := claim(t, s, func(c *model.Claim) { c.Service = "shop" }); len(c.Rows) != 1 || c.Rows[0].ID != row.ID {
		t.Errorf("claimed %+v, want the replay", c.Rows)
	}
	if p, err := s.ListLetters(bound(t), model.LetterFilter{Queue: "others"}); err != nil ||
		p[0].Status != model.LetterOpen {
		t.Errorf("the other queue's letter: %+v, %v", p, err)
	}
}

// testLetterReplayOnce: whoever clicks at the same time, and again, each letter has one row, counted by one of them.
func testLetterReplayOnce(t *testing.T, s Letters) {
	const n, operators = 120, 4
	list := letters(t, s, "payments", n)
	var total atomic.Int64
	var clicking sync.WaitGroup
	for i := range operators {
		clicking.Go(func() {
			a := letterAct(model.LetterFilter{Queue: "payments"})
			if i%2 == 1 {
				a = letterAct(model.LetterFilter{}, idsOf(list)...)
			}
			k, refused, err := s.ReplayLetters(bound(t), a, model.LetterReplay{Rate: 1000})
			if total.Add(int64(k)); err != nil || len(refused) > 0 {
				t.Errorf("operator %d: %v, refused %v", i, err, refused)
			}
		})
	}
	clicking.Wait()
	if total.Load() != n {
		t.Errorf("%d operators sent %d back together, want %d", operators, total.Load(), n)
	}
	rows, err := s.List(bound(t), model.Filter{Service: "shop", Limit: 1000})
	if err != nil || len(rows) != n {
		t.Fatalf("%d rows, %v, want %d", len(rows), err, n)
	}
	have := map[string]bool{}
	for i := range rows {
		have[rows[i].ID] = true
	}
	late := 0
	for i := range list {
		l := stored(t, s, list[i].ID)
		if !have[l.ReplayID] {
			t.Errorf("letter %s is REPLAYED as %q, which is no row", l.ID, l.ReplayID)
		}
		delete(have, l.ReplayID)
	}
	for i := range rows {
		if rows[i].NextAttemptAt > rows[i].CreatedAt {
			late++
		}
	}
	if late < n/2 {
		t.Errorf("%d of %d rows are due later than they were stored, want them spread", late, n)
	}
	replayLetters(t, s, letterAct(model.LetterFilter{}, list[0].ID), 0)
}

// testLetterReplayRefuses: what cannot be sent says why and waits on, and the others go.
func testLetterReplayRefuses(t *testing.T, s Letters) {
	good := letters(t, s, "q", 1)[0]
	never := letters(t, s, "q", 1, func(l *model.DeadLetter) {
		l.Properties, l.Unreplayable = append(l.Properties, 1), "bytes follow the last property"
	})[0]
	thisWay := letters(t, s, "q", 1, func(l *model.DeadLetter) { l.Exchange = "x\xff" })[0]
	n, refused, err := s.ReplayLetters(bound(t), letterAct(model.LetterFilter{Queue: "q"}),
		model.LetterReplay{Replay: model.Replay{ToExchange: true}})
	if err != nil || n != 1 || len(refused) != 1 || refused[0].ID != thisWay.ID || !strings.Contains(refused[0].Why,
		"exchange") {
		t.Errorf("replayed %d, refused %+v, %v, want one and one", n, refused, err)
	}
	for id, want := range map[string]model.LetterStatus{
		good.ID: model.LetterReplayed, never.ID: model.LetterOpen, thisWay.ID: model.LetterOpen,
	} {
		if got := stored(t, s, id).Status; got != want {
			t.Errorf("letter %s is %s, want %s", id, got, want)
		}
	}
	l := stored(t, s, good.ID)
	if row, _ := show(t, s, l.ReplayID); row.Exchange != "x" || row.RoutingKey != "k" {
		t.Errorf("the row goes to %q, %q, want its publisher's exchange and key", row.Exchange, row.RoutingKey)
	}
	if _, _, err := s.ReplayLetters(bound(t), letterAct(model.LetterFilter{Queue: "q"}),
		model.LetterReplay{Rate: -1}); err == nil {
		t.Error("a rate of -1 is taken")
	}
}

// comeBack is the letter that a consumer makes of a replay's message which it gave up again.
func comeBack(t *testing.T, s Letters, id string) model.DeadLetter {
	t.Helper()
	row, _ := show(t, s, stored(t, s, id).ReplayID)
	m, err := row.Message()
	if err != nil {
		t.Fatal(err)
	}
	m.Headers[model.HeaderRejection], m.Headers[model.HeaderCause] = model.NewID(), "permanent"
	r := model.Rejected{Source: "dead", RoutingKey: row.RoutingKey, Properties: model.EncodeWire(&m), Body: row.Payload}
	l := r.Letter("shop")
	if _, err := s.Delete(bound(t), []model.RowKey{{ID: row.ID, Epoch: row.Epoch}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Collect(bound(t), []model.DeadLetter{l}); err != nil {
		t.Fatal(err)
	}
	return l
}

// testLetterLineage: what fails again is PARKED under the letter that it was sent back from; edited and sent back once
// more it has one row, whoever clicks.
func testLetterLineage(t *testing.T, s Letters) {
	first := letters(t, s, "payments", 1)[0]
	replayLetters(t, s, letterAct(model.LetterFilter{}, first.ID), 1)
	second := comeBack(t, s, first.ID)
	if second.Status != model.LetterParked || second.Parent != first.ID || second.Replays != 1 ||
		second.Queue != "payments" || string(second.WireID) != string(first.WireID) {
		t.Fatalf("it came back as %+v", second)
	}
	l, _, children, err := s.Letter(bound(t), first.ID)
	if err != nil || l.Became != model.BecameFailed || !slices.Equal(idsOf(children), []string{second.ID}) {
		t.Errorf("the first: became %q, children %v, %v", l.Became, idsOf(children), err)
	}
	body := []byte("corrected")
	for round := range 2 { // an edit makes it wait again
		if err := s.EditLetter(bound(t), second.ID, model.LetterEdit{Body: &body, Actor: actor}); err != nil {
			t.Fatal(err)
		}
		if got := stored(t, s, second.ID); got.Status != model.LetterParked {
			t.Fatalf("edited it is %s, want PARKED", got.Status)
		}
		replayLetters(t, s, letterAct(model.LetterFilter{}, second.ID), 1)
		replayLetters(t, s, letterAct(model.LetterFilter{}, second.ID), 0)
		rows, err := s.List(bound(t), model.Filter{Service: "shop"})
		if err != nil || len(rows) != round+1 {
			t.Errorf("round %d: %d rows, %v, want one for each edit", round, len(rows), err)
		}
	}
	row, _ := show(t, s, stored(t, s, second.ID).ReplayID)
	if m, err := row.Message(); err != nil || m.Headers[model.HeaderReplays] != int64(2) ||
		m.Headers[model.HeaderReplayOf] != second.ID || string(row.Payload) != "corrected" {
		t.Errorf("the second replay: %v, body %q, %v", m.Headers, row.Payload, err)
	}
}

// testLetterBecame: what became of each replay is told by the tables.
func testLetterBecame(t *testing.T, s Letters) {
	list := letters(t, s, "q", 5)
	replayLetters(t, s, letterAct(model.LetterFilter{Queue: "q"}), 5)
	row := func(i int) model.TransMessage {
		r, _ := show(t, s, stored(t, s, list[i].ID).ReplayID)
		return r
	}
	dead := returned(row(1))
	dead.Status, dead.Delay = model.Dead, 0
	settle(t, s, dead)
	comeBack(t, s, list[2].ID)
	gone := row(3)
	if _, err := s.Delete(bound(t), []model.RowKey{{ID: gone.ID, Epoch: gone.Epoch}}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Discard(bound(t), act(model.Filter{Status: model.Ready}, row(4).ID)); err != nil || n != 1 {
		t.Fatalf("discarded %d, %v", n, err)
	}
	want := map[model.Became]int64{}
	for i, w := range []model.Became{
		model.BecameWaiting, model.BecameDead, model.BecameFailed, model.BecameSent, model.BecameDiscarded,
	} {
		want[w]++
		if got := stored(t, s, list[i].ID).Became; got != w {
			t.Errorf("letter %d became %q, want %q", i, got, w)
		}
	}
	groups, err := s.LetterGroups(bound(t), model.LetterFilter{Status: model.LetterReplayed})
	if err != nil || len(groups) != 1 || groups[0].Rows != 5 {
		t.Fatalf("groups %+v, %v, want one of 5", groups, err)
	}
	if got := groups[0].Became; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the group became %v, want %v", got, want)
	}
}
