package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/transmsg/transmsg/model"
)

func testExportImport(t *testing.T, s Store) {
	list := exportable(520) // more than one batch
	for range 3 {
		list = append(list, draft(string(make([]byte, 3<<20)))) // more than one batch, too
	}
	kill(t, s, list, model.Outcome{Kind: model.Nacked, Code: model.CodeNack, Text: "nack"})
	alerted(t, s)
	replay(t, s, act(model.Filter{}, list[0].ID), 0, 1)
	leased := claim(t, s).Rows[0]

	everything := model.Selection{Filter: model.Filter{Service: svc}}
	rows := export(t, s, everything)
	if len(rows) != len(list) {
		t.Fatalf("exported %d rows, want %d", len(rows), len(list))
	}
	if n, err := s.Import(bound(t), rows, actor); err != nil || n != 0 {
		t.Fatalf("import of rows that exist: %d, %v, want them passed over", n, err)
	}
	if n, err := s.Delete(bound(t), rowKeys(rows)); err != nil || n != len(rows) {
		t.Fatalf("delete: %d, %v", n, err)
	}
	before := now(t, s)
	if n, err := s.Import(bound(t), append(rows, rows[0]), actor); err != nil || n != len(rows) {
		t.Fatalf("import: %d, %v, want %d", n, err, len(rows))
	}
	back := export(t, s, everything)
	for i := range min(len(back), len(rows)) {
		if back[i].ID == leased.ID {
			if back[i].NextAttemptAt < before || back[i].NextAttemptAt > now(t, s) || back[i].ClaimedBy != "" {
				t.Errorf("a lease was imported: %+v", back[i])
			}
			back[i].NextAttemptAt, back[i].ClaimedBy = rows[i].NextAttemptAt, rows[i].ClaimedBy
		}
		if !bytes.Equal(back[i].Payload, rows[i].Payload) {
			t.Errorf("row %d: another body", i)
		}
		back[i].Payload, rows[i].Payload = nil, nil
		if back[i].Epoch == rows[i].Epoch {
			t.Errorf("row %d has the epoch of its former life", i)
		}
		back[i].Epoch = rows[i].Epoch
	}
	equal(t, "exported, deleted and imported", back, rows)
	if e := lastEvent(t, s, list[5].ID); e.Kind != model.EventImport || e.Actor != actor {
		t.Errorf("event %+v", e)
	}
}

// exportable are rows with all bytes in their bodies, one of them corrupt and one empty.
func exportable(n int) []model.Draft {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	list := make([]model.Draft, n)
	for i := range list {
		list[i] = draft(fmt.Sprintf("%s %d", all, i), func(m *model.Message) {
			m.Key, m.Headers = "ü ", map[string]any{"raw": []byte{0, 0xff}}
		})
	}
	list[1].Properties = []byte("not JSON \x00\xff") // exported as it is
	list[2].Payload = nil
	for i := range list {
		list[i].Size = len(list[i].Payload) + len(list[i].Properties)
	}
	return list
}

func testImportRefusals(t *testing.T, s Store) {
	dead(t, s, 1)
	rows := export(t, s, model.Selection{Filter: allDead()})
	other, fresh := rows[0], rows[0]
	other.Payload = []byte("other")
	fresh.ID = model.NewID()
	n, err := s.Import(bound(t), []model.TransMessage{fresh, other}, actor)
	if n != 0 || !errors.Is(err, model.ErrConflict) {
		t.Errorf("other content: %d, %v, want a conflict", n, err)
	}
	for name, edit := range map[string]func(*model.TransMessage){
		"id":      func(r *model.TransMessage) { r.ID = "" },
		"service": func(r *model.TransMessage) { r.Service = "" },
		"status":  func(r *model.TransMessage) { r.Status = "SENT" },
		"created": func(r *model.TransMessage) { r.CreatedAt = 0 },
	} {
		bad := rows[0]
		bad.ID = model.NewID()
		edit(&bad)
		if n, err := s.Import(bound(t), []model.TransMessage{fresh, bad}, actor); err == nil || n != 0 {
			t.Errorf("%s: %d, %v, want it refused", name, n, err)
		}
	}
	if _, err := s.Import(bound(t), []model.TransMessage{fresh}, ""); err == nil {
		t.Error("no actor is accepted")
	}
	if exists(t, s, fresh.ID) {
		t.Error("a row of a refused import was stored")
	}
	stop := errors.New("stop")
	if err := s.Export(bound(t), model.Selection{Filter: allDead()},
		func(model.TransMessage) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("export: %v, want the callback's error", err)
	}
}

func export(t *testing.T, s Store, sel model.Selection) []model.TransMessage {
	t.Helper()
	var out []model.TransMessage
	err := s.Export(bound(t), sel, func(r model.TransMessage) error {
		r.Payload, r.Properties = slices.Clone(r.Payload), slices.Clone(r.Properties)
		out = append(out, r)
		return nil
	})
	if err != nil {
		t.Fatalf("export: %v", err)
	}
	return out
}
