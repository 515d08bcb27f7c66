package gormstore_test

import (
	"testing"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// TestAReplayIsHandledWhereTheInboxSaysSo: by the wire id, or by the new id where it was replayed as new.
func TestAReplayIsHandledWhereTheInboxSaysSo(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{})
		var list []model.DeadLetter
		for range 3 {
			m := model.Message{ID: model.NewID()}
			r := model.Rejected{Source: "q", Properties: model.EncodeWire(&m)}
			list = append(list, r.Letter("shop"))
		}
		if err := s.Collect(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for i := range list {
			a := model.LetterAct{LetterSelection: model.LetterSelection{IDs: []string{list[i].ID}}, Actor: "ann"}
			r := model.LetterReplay{Replay: model.Replay{AsNew: i == 1}}
			if n, _, err := s.ReplayLetters(t.Context(), a, r); err != nil || n != 1 {
				t.Fatalf("replayed %d, %v", n, err)
			}
		}
		letter := func(i int) model.DeadLetter {
			l, _, _, err := s.Letter(t.Context(), list[i].ID)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		for _, key := range []string{string(list[0].WireID), letter(1).ReplayID} { // as the consumer's effect does
			record := map[string]string{
				"mysql":    "INSERT INTO trans_inbox (consumer, record_key, mark, done_at) VALUES ('pay', ?, 1, 1)",
				"postgres": "INSERT INTO trans_inbox (consumer, record_key, mark, done_at) VALUES ('pay', $1, 1, 1)",
				"sqlite":   "INSERT INTO trans_inbox (consumer, record_key, mark, done_at) VALUES ('pay', ?, 1, 1)",
			}[s.Dialect()]
			if _, err := s.Pool().ExecContext(t.Context(), record, []byte(key)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range list {
			if got := letter(i).Became; got != model.BecameWaiting {
				t.Errorf("letter %d, whose row is stored, became %q", i, got)
			}
		}
		if _, err := s.Pool().ExecContext(t.Context(), "DELETE FROM trans_message"); err != nil {
			t.Fatal(err)
		}
		for i, want := range []model.Became{model.BecameHandled, model.BecameHandled, model.BecameSent} {
			if got := letter(i).Became; got != want {
				t.Errorf("letter %d became %q, want %q", i, got, want)
			}
		}
	})
}
