package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/transmsg/transmsg/model"
)

// Letters is what keeps dead letters, beside messages.
type Letters interface {
	Store
	Collect(ctx context.Context, letters []model.DeadLetter) error
	Letter(ctx context.Context, id string) (model.DeadLetter, []model.Event, []model.DeadLetter, error)
	ListLetters(context.Context, model.LetterFilter) ([]model.DeadLetter, error)
	SelectLetters(context.Context, model.LetterSelection, time.Duration) (model.LetterPreview, error)
	LetterGroups(context.Context, model.LetterFilter) ([]model.LetterGroup, error)
	ReplayLetters(context.Context, model.LetterAct, model.LetterReplay) (int, []model.LetterRefusal, error)
	DiscardLetters(context.Context, model.LetterAct) (int, error)
	EraseLetters(context.Context, model.LetterAct) (int, error)
	EditLetter(ctx context.Context, id string, e model.LetterEdit) error
	ExportLetters(context.Context, model.LetterSelection, func(model.DeadLetter) error) error
	ImportLetters(ctx context.Context, letters []model.DeadLetter, actor string) (int, error)
	ClaimLetters(context.Context, model.DeadClaim) ([]model.DeadLetter, error)
	MarkLetters(ctx context.Context, keys []model.RowKey, next time.Duration) (int, error)
	PurgeLetters(ctx context.Context, olderThan time.Duration, limit int) (int, error)
}

// RunLetters runs the dead letters' part of the suite. open returns an empty store of its own for each call and closes
// it when the test ends.
func RunLetters(t *testing.T, open func(t *testing.T) Letters) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Letters){
		"CollectKeepsEveryByte": testCollectBytes, "CollectOnce": testCollectOnce,
		"CollectWithoutIDMergesNothing": testCollectNoID, "CollectIsConcurrent": testCollectAtOnce,
		"CollectRefusesTooLarge": testCollectLarge, "CollectKnowsEditedAndErased": testCollectChanged,
		"LettersList": testLettersList, "LettersSelect": testLettersSelect, "LetterReplay": testLetterReplay,
		"LetterReplayIsOnce": testLetterReplayOnce, "LetterReplayRefuses": testLetterReplayRefuses,
		"LetterLineage": testLetterLineage, "LetterBecame": testLetterBecame, "LettersDiscard": testLettersDiscard,
		"LetterEdit": testLetterEdit, "LettersErase": testLettersErase, "LettersExportImport": testLettersExportImport,
		"LettersPurge": testLettersPurge, "LetterAlerts": testLetterAlerts,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// everyByte has all bytes, and so what no text column takes.
func everyByte() []byte {
	b := make([]byte, 255)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func letter(id string, body []byte) model.DeadLetter {
	m := model.Message{ID: id, Headers: map[string]any{model.HeaderKey: "order-1"}}
	r := model.Rejected{Source: "dead", Exchange: "x", RoutingKey: "k", Properties: model.EncodeWire(&m), Body: body}
	return r.Letter("shop")
}

func stored(t *testing.T, s Letters, id string) model.DeadLetter {
	t.Helper()
	l, _, _, err := s.Letter(bound(t), id)
	if err != nil {
		t.Fatalf("letter %s: %v", id, err)
	}
	return l
}

// sameLetter compares what was given with what is stored, but for the clocks.
func sameLetter(t *testing.T, want, got model.DeadLetter) {
	t.Helper()
	clocks := cmpopts.IgnoreFields(model.DeadLetter{}, "AlertAt", "CreatedAt", "UpdatedAt")
	if diff := cmp.Diff(want, got, clocks, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// testCollectBytes: names, wire id, properties and body come back as they were, whatever bytes they are.
func testCollectBytes(t *testing.T, s Letters) {
	all := everyByte()
	l := letter(string(all), bytes.Repeat(all, 40))
	l.Queue, l.Exchange, l.RoutingKey = string(all), "ex\x00\xff ", " \x00"
	l.Properties = append(l.Properties, all...)
	l.Cause, l.Text, l.Attempts, l.Count, l.FirstAt, l.LastAt = "größe", "it is – 'over' ", 5, 1<<40, 17, 1<<41
	l.Parent, l.Replays, l.Status, l.Unreplayable = model.NewID(), 3, model.LetterParked, "no ' \\ ?"
	empty := letter("", nil)
	empty.WireID, empty.Queue, empty.Exchange = []byte{}, "", ""
	if err := s.Collect(bound(t), []model.DeadLetter{l, empty}); err != nil {
		t.Fatal(err)
	}
	got := stored(t, s, l.ID)
	sameLetter(t, l, got)
	now, err := s.Now(bound(t))
	if err != nil || got.CreatedAt == 0 || got.CreatedAt > now || got.UpdatedAt != got.CreatedAt {
		t.Errorf("created %d, updated %d, now %d (%v)", got.CreatedAt, got.UpdatedAt, now, err)
	}
	got = stored(t, s, empty.ID)
	sameLetter(t, empty, got)
	if got.WireID == nil {
		t.Error("an empty wire id became none")
	}
	if _, _, _, err := s.Letter(bound(t), model.NewID()); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("no letter: %v, want ErrNotFound", err)
	}
}

// testCollectOnce: a rejection is one row however often it comes, and another message under its id is another row.
func testCollectOnce(t *testing.T, s Letters) {
	l := letter("m", []byte("one"))
	l.ID = model.NewID()
	again := l
	again.Count = 99 // a later delivery may say more
	other := letter("m2", []byte("two"))
	other.ID = l.ID
	for _, batch := range [][]model.DeadLetter{{l, again}, {again}, {letter("m3", nil), again, other}, {other, other}} {
		if err := s.Collect(bound(t), batch); err != nil {
			t.Fatal(err)
		}
	}
	sameLetter(t, l, stored(t, s, l.ID))
	made := other.Again()
	got := stored(t, s, made.ID)
	sameLetter(t, made, got)
	if string(got.Payload) != "two" {
		t.Errorf("the other message under the id is %q", got.Payload)
	}
}

func testCollectNoID(t *testing.T, s Letters) {
	var all []model.DeadLetter
	for range 100 {
		all = append(all, letter("", []byte("same")))
	}
	if err := s.Collect(bound(t), all); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if got := stored(t, s, all[i].ID); got.WireID != nil {
			t.Errorf("wire id %q, want none", got.WireID)
		}
	}
}

// testCollectAtOnce: several collectors have the same letters.
func testCollectAtOnce(t *testing.T, s Letters) {
	var all []model.DeadLetter
	for i := range 60 {
		l := letter(fmt.Sprint(i), []byte("body"))
		l.ID = model.NewID()
		all = append(all, l)
	}
	var collectors sync.WaitGroup
	for c := range 4 {
		collectors.Go(func() {
			for i := 0; i < len(all); i += 20 {
				part := append([]model.DeadLetter{}, all[(i+20*c)%60:(i+20*c)%60+20]...)
				if c%2 == 1 { // another order
					part[0], part[19] = part[19], part[0]
				}
				if err := s.Collect(bound(t), part); err != nil {
					t.Errorf("collector %d: %v", c, err)
				}
			}
		})
	}
	collectors.Wait()
	for i := range all {
		sameLetter(t, all[i], stored(t, s, all[i].ID))
	}
}

func testCollectLarge(t *testing.T, s Letters) {
	if s.MaxBody() > 1<<30 {
		return // SQLite: a statement has no size
	}
	small, large := letter("m", nil), letter("n", make([]byte, s.MaxBody()))
	err := s.Collect(bound(t), []model.DeadLetter{small, large})
	var invalid *model.InvalidError
	if !errors.As(err, &invalid) || invalid.Index != 1 {
		t.Errorf("too large: %v, want an InvalidError with index 1", err)
	}
	if _, _, _, err := s.Letter(bound(t), small.ID); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("the letter before it: %v, want ErrNotFound", err)
	}
}
