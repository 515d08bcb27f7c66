package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/transmsg/transmsg/model"
)

// testLetterEdit: the original stays beside what is corrected, what is not edited stays byte for byte, and a command
// that was made for an older state does nothing.
func testLetterEdit(t *testing.T, s Letters) {
	l := letters(t, s, "q", 1, func(l *model.DeadLetter) { l.Unreplayable = "nothing tells where to" })[0]
	body := []byte("corrected \x00\xff")
	if err := s.EditLetter(bound(t), l.ID, model.LetterEdit{
		Body: &body, Epoch: &l.Epoch, Actor: actor,
		Reason: "typo",
	}); err != nil {
		t.Fatal(err)
	}
	got := stored(t, s, l.ID)
	if string(got.Payload) != string(body) || string(got.Properties) != string(l.Properties) || got.Epoch != l.Epoch+
		1 ||
		got.Original == nil || string(got.Original.Payload) != "body 0" || got.Size != len(body)+len(l.Properties) ||
		string(got.Original.Properties) != string(l.Properties) || got.Unreplayable != "" {
		t.Errorf("edited %+v", got)
	}
	headers := map[string]any{"fixed": true}
	if err := s.EditLetter(bound(t), l.ID, model.LetterEdit{Headers: &headers, Actor: actor}); err != nil {
		t.Fatal(err)
	}
	got = stored(t, s, l.ID)
	v := got.Properties.View()
	if v.Headers["fixed"] != true || v.Headers[model.HeaderKey] != "order-1" || v.ID != string(l.WireID) ||
		string(got.Original.Payload) != "body 0" || string(got.Payload) != string(body) {
		t.Errorf("edited twice: headers %v, id %q, original %q", v.Headers, v.ID, got.Original.Payload)
	}
	_, events, _, err := s.Letter(bound(t), l.ID)
	if err != nil || len(events) != 2 || events[0].Kind != model.EventEdit || events[0].Text != "typo [body]" {
		t.Errorf("events %+v, %v", events, err)
	}
	own := map[string]any{model.HeaderReplays: int64(0)}
	for name, c := range map[string]struct {
		id   string
		edit model.LetterEdit
		want error
	}{
		"an older epoch": {l.ID, model.LetterEdit{Body: &body, Epoch: &l.Epoch, Actor: actor}, model.ErrChanged},
		"no letter":      {model.NewID(), model.LetterEdit{Body: &body, Actor: actor}, model.ErrNotFound},
		"nothing":        {l.ID, model.LetterEdit{Actor: actor}, model.ErrInvalid},
		"our headers":    {l.ID, model.LetterEdit{Headers: &own, Actor: actor}, model.ErrInvalid},
	} {
		if err := s.EditLetter(bound(t), c.id, c.edit); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if after := stored(t, s, l.ID); after.Epoch != got.Epoch {
		t.Errorf("a refused edit changed the epoch from %d to %d", got.Epoch, after.Epoch)
	}
}

// testCollectChanged: the broker may deliver a letter again after somebody edited or erased it. It is the same letter.
func testCollectChanged(t *testing.T, s Letters) {
	list := letters(t, s, "q", 2)
	body := []byte("corrected")
	if err := s.EditLetter(bound(t), list[0].ID, model.LetterEdit{Body: &body, Actor: actor}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.EraseLetters(bound(t), letterAct(model.LetterFilter{}, list[1].ID)); err != nil || n != 1 {
		t.Fatalf("erased %d, %v", n, err)
	}
	if err := s.Collect(bound(t), list); err != nil {
		t.Fatal(err)
	}
	all, err := s.ListLetters(bound(t), model.LetterFilter{})
	if err != nil || len(all) != 2 || string(stored(t, s, list[0].ID).Payload) != "corrected" ||
		len(stored(t, s, list[1].ID).Payload) != 0 {
		t.Errorf("%d letters, %v, want the two as they were changed", len(all), err)
	}
}

// testLettersErase: the content is gone, the original too, the trail stays; a letter whose replay is stored stays
// whole.
func testLettersErase(t *testing.T, s Letters) {
	list := letters(t, s, "q", 2, func(l *model.DeadLetter) { l.Text = "name of a person" })
	body := []byte("corrected")
	if err := s.EditLetter(bound(t), list[0].ID, model.LetterEdit{Body: &body, Actor: actor}); err != nil {
		t.Fatal(err)
	}
	replayLetters(t, s, letterAct(model.LetterFilter{}, list[1].ID), 1)
	if n, err := s.EraseLetters(bound(t), letterAct(model.LetterFilter{Queue: "q"})); err != nil || n != 1 {
		t.Fatalf("erased %d, %v, want the one whose replay is not stored", n, err)
	}
	got, events, _, err := s.Letter(bound(t), list[0].ID)
	if err != nil || len(got.Payload) != 0 || len(got.Properties) != 0 || got.Original != nil || got.Text != "" ||
		got.ErasedAt == 0 || got.Status != model.LetterDiscarded || got.Unreplayable == "" || got.Size != 0 ||
		string(got.WireID) != string(list[0].WireID) || got.Queue != "q" || got.Key != "order-1" {
		t.Errorf("erased %+v, %v", got, err)
	}
	if len(events) != 2 || events[1].Kind != model.EventErase || events[1].Actor != actor {
		t.Errorf("events %+v", events)
	}
	if err := s.EditLetter(bound(t), list[0].ID, model.LetterEdit{Body: &body, Actor: actor}); !errors.Is(err,
		model.ErrInvalid) {
		t.Errorf("edit of an erased letter: %v, want ErrInvalid", err)
	}
	if got := stored(t, s, list[1].ID); string(got.Payload) == "" || got.ErasedAt != 0 {
		t.Errorf("the letter whose replay is stored was erased: %+v", got)
	}
	row, _ := show(t, s, stored(t, s, list[1].ID).ReplayID)
	if _, err := s.Delete(bound(t), []model.RowKey{{ID: row.ID, Epoch: row.Epoch}}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.EraseLetters(bound(t), letterAct(model.LetterFilter{Queue: "q"})); err != nil || n != 1 {
		t.Errorf("erased %d once the replay is gone, %v, want 1", n, err)
	}
	if got := stored(t, s, list[1].ID); got.Status != model.LetterReplayed || got.ErasedAt == 0 {
		t.Errorf("%s, erased at %d, want REPLAYED still", got.Status, got.ErasedAt)
	}
}

// testLettersExportImport: everything comes back as it was, but for claim and alert; a repeat stores nothing.
func testLettersExportImport(t *testing.T, s Letters) {
	list := letters(t, s, "q", 3, func(l *model.DeadLetter) { l.Payload = everyByte() })
	body := []byte("corrected")
	if err := s.EditLetter(bound(t), list[0].ID, model.LetterEdit{Body: &body, Actor: actor}); err != nil {
		t.Fatal(err)
	}
	replayLetters(t, s, letterAct(model.LetterFilter{}, list[1].ID), 1)
	row, _ := show(t, s, stored(t, s, list[1].ID).ReplayID)
	if _, err := s.Delete(bound(t), []model.RowKey{{ID: row.ID, Epoch: row.Epoch}}); err != nil {
		t.Fatal(err)
	}
	export := func() (out []model.DeadLetter) {
		sel := model.LetterSelection{Filter: model.LetterFilter{Queue: "q"}}
		if err := s.ExportLetters(bound(t), sel, func(l model.DeadLetter) error {
			out = append(out,
				l)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	whole := export()
	if n, err := s.ImportLetters(bound(t), whole, actor); err != nil || n != 0 || len(whole) != 3 {
		t.Fatalf("import of %d letters that exist: %d, %v, want them passed over", len(whole), n, err)
	}
	purgeAll(t, s, 3)
	if n, err := s.ImportLetters(bound(t), append(whole, whole[0]), actor); err != nil || n != 3 {
		t.Fatalf("import: %d, %v, want 3", n, err)
	}
	if diff := cmp.Diff(whole, export(), cmpopts.IgnoreFields(model.DeadLetter{}, "AlertAt"),
		cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("exported, deleted and imported (-want +got):\n%s", diff)
	}
	other := whole[2]
	other.Payload = []byte("other")
	if _, err := s.ImportLetters(bound(t), []model.DeadLetter{other}, actor); !errors.Is(err, model.ErrConflict) {
		t.Errorf("other content: %v, want ErrConflict", err)
	}
	for name, spoil := range map[string]func(*model.DeadLetter){
		"id": func(l *model.DeadLetter) { l.ID = "" }, "status": func(l *model.DeadLetter) { l.Status = "READY" },
		"created": func(l *model.DeadLetter) { l.CreatedAt = 0 },
	} {
		bad := whole[2]
		spoil(&bad)
		if n, err := s.ImportLetters(bound(t), []model.DeadLetter{whole[0], bad}, actor); err == nil || n != 0 {
			t.Errorf("bad %s: stored %d, %v", name, n, err)
		}
	}
}

// purgeAll deletes everything that may go, after a moment in which all of it got old enough.
func purgeAll(t *testing.T, s Letters, want int) {
	t.Helper()
	if n, err := s.DiscardLetters(bound(t), letterAct(model.LetterFilter{Service: "shop"})); err != nil {
		t.Fatalf("discarded %d, %v", n, err)
	}
	waitMS(t, s)
	if n, err := s.PurgeLetters(bound(t), time.Millisecond, 100); err != nil || n != want {
		t.Fatalf("purged %d, %v, want %d", n, err, want)
	}
}

// waitMS waits until the store's clock has passed some milliseconds.
func waitMS(t *testing.T, s Letters) {
	t.Helper()
	for since := now(t, s); now(t, s) < since+3; {
		time.Sleep(time.Millisecond)
	}
}

// testLettersPurge: letters go by the age of their last change, those whose alert is owed or whose replay is stored do
// not, and each leaves a line.
func testLettersPurge(t *testing.T, s Letters) {
	waits := letters(t, s, "q", 1)[0]
	replayed := letters(t, s, "r", 1)[0]
	list := letters(t, s, "d", 5)
	replayLetters(t, s, letterAct(model.LetterFilter{Queue: "r"}), 1)
	if n, err := s.DiscardLetters(bound(t), letterAct(model.LetterFilter{Queue: "d"})); err != nil || n != 5 {
		t.Fatalf("discarded %d, %v", n, err)
	}
	waitMS(t, s)
	if n, err := s.PurgeLetters(bound(t), hour, 100); err != nil || n != 0 {
		t.Errorf("purged %d of an hour, %v, want 0", n, err)
	}
	for _, want := range []int{2, 2, 1, 0} {
		if n, err := s.PurgeLetters(bound(t), time.Millisecond, 2); err != nil || n != want {
			t.Errorf("purged %d, %v, want %d", n, err, want)
		}
	}
	stored(t, s, waits.ID)
	stored(t, s, replayed.ID)
	_, events, _, err := s.Letter(bound(t), list[0].ID)
	if !errors.Is(err, model.ErrNotFound) || len(events) != 2 || events[1].Kind != model.EventPurge {
		t.Errorf("events %+v, %v", events, err)
	}
	if _, err := s.PurgeLetters(bound(t), 0, 1); err == nil {
		t.Error("an age of 0 is taken")
	}
}
