package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/transmsg/transmsg/model"
)

func testEdit(t *testing.T, s Store) {
	row := dead(t, s, 1)[0]
	before, _ := show(t, s, row.ID)
	key, body := "right.key", []byte("corrected \x00\xff")
	err := s.Edit(bound(t), row.ID, model.Edit{RoutingKey: &key, Body: &body, Actor: actor, Reason: "typo"})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := show(t, s, row.ID)
	want := before
	want.RoutingKey, want.Payload, want.Size = key, body, len(body)+len(before.Properties)
	want.Epoch, want.Version, want.UpdatedAt = 1, before.Version+1, got.UpdatedAt
	equal(t, "edited row", got, want)
	e := lastEvent(t, s, row.ID)
	if e.Kind != model.EventEdit || e.Actor != actor || e.Text != "typo [routing_key body]" {
		t.Errorf("event %+v", e)
	}
	// The send before the edit is acked late: the corrected row is not its.
	if n, err := s.Delete(bound(t), []model.RowKey{{ID: row.ID, Epoch: before.Epoch}}); err != nil || n != 0 {
		t.Errorf("a late ack deleted %d rows, %v", n, err)
	}
	equal(t, "late settlement", settle(t, s, returned(before)), []model.Settled{model.SettledFenced})
	replay(t, s, act(model.Filter{}, row.ID), 0, 1)
	c := claim(t, s)
	if len(c.Rows) != 1 || !bytes.Equal(c.Rows[0].Payload, body) || c.Rows[0].Epoch != 2 {
		t.Fatalf("claimed %+v", c.Rows)
	}
	if n, err := s.Delete(bound(t), rowKeys(c.Rows)); err != nil || n != 1 {
		t.Errorf("the ack of the corrected message deleted %d rows, %v", n, err)
	}
}

func testEditProperties(t *testing.T, s Store) {
	row := dead(t, s, 1, func(m *model.Message) { m.Headers = map[string]any{"a": int64(1)} })[0]
	headers := map[string]any{"b": 2, "c": "three"}
	yes := true
	err := s.Edit(bound(t), row.ID, model.Edit{
		Properties: &model.Properties{Type: "paid", Priority: 3}, Headers: &headers, AllowUnroutable: &yes, Actor: actor,
	})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := show(t, s, row.ID)
	m, err := got.Message()
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "message", m, model.Message{
		ID: row.ID, Exchange: "ex", RoutingKey: "rk", Body: row.Payload, AllowUnroutable: true,
		Properties: model.Properties{Type: "paid", Priority: 3}, Headers: map[string]any{"b": int64(2), "c": "three"},
	})
	if got.Size != len(got.Payload)+len(got.Properties) {
		t.Errorf("size %d", got.Size)
	}
}

func testEditRefusals(t *testing.T, s Store) {
	claimed := claimOne(t, s)
	published, corrupt := draft("published"), draft("corrupt")
	published.Delay, published.ClaimedBy = hour, owner
	corrupt.Properties = []byte(`{"v":1,"headers":7}`)
	waiting := draft("waiting")
	waiting.Delay = hour
	insert(t, s, published, waiting)
	kill(t, s, []model.Draft{corrupt}, model.Outcome{Kind: model.Refused, Code: model.CodeCorrupt})
	key, bad := "k", "line\nbreak"
	for _, c := range []struct {
		name, id string
		edit     model.Edit
		want     error
	}{
		{"claimed", claimed.ID, model.Edit{RoutingKey: &key, Actor: actor}, model.ErrLeased},
		{"sent by its publisher", published.ID, model.Edit{RoutingKey: &key, Actor: actor}, model.ErrLeased},
		{"unknown", model.NewID(), model.Edit{RoutingKey: &key, Actor: actor}, model.ErrNotFound},
		{"invalid", waiting.ID, model.Edit{Exchange: &bad, Actor: actor}, model.ErrInvalid},
		{"nothing", waiting.ID, model.Edit{Actor: actor}, model.ErrInvalid},
		{"corrupt", corrupt.ID, model.Edit{RoutingKey: &key, Actor: actor}, model.ErrCorrupt},
	} {
		before, _, _ := s.Show(bound(t), c.id)
		if err := s.Edit(bound(t), c.id, c.edit); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		after, _, _ := s.Show(bound(t), c.id)
		equal(t, c.name+": row", after, before)
	}
	if err := s.Edit(bound(t), waiting.ID, model.Edit{RoutingKey: &key}); err == nil {
		t.Error("an edit without an actor is accepted")
	}
	if err := s.Edit(bound(t), waiting.ID, model.Edit{RoutingKey: &key, Actor: actor}); err != nil {
		t.Errorf("a READY row that nobody sends: %v", err)
	}
	repaired := model.Edit{Properties: &model.Properties{}, Headers: &map[string]any{}, Actor: actor}
	if err := s.Edit(bound(t), corrupt.ID, repaired); err != nil {
		t.Errorf("repair of corrupt properties: %v", err)
	}
	if row, _ := show(t, s, corrupt.ID); string(row.Properties) != `{"v":1}` {
		t.Errorf("repaired properties %s", row.Properties)
	}
}

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
	if n, err := s.Import(bound(t), []model.TransMessage{fresh, other}, actor); n != 0 || !errors.Is(err, model.ErrConflict) {
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

func testAddEvent(t *testing.T, s Store) {
	row := dead(t, s, 1)[0]
	before := now(t, s)
	e := model.Event{RowID: row.ID, Kind: model.EventRead, Text: "body", Actor: actor, Instance: "cli"}
	if err := s.AddEvent(bound(t), e); err != nil {
		t.Fatal(err)
	}
	got := lastEvent(t, s, row.ID)
	if got.At < before {
		t.Errorf("event at %d, before %d", got.At, before)
	}
	got.At = 0
	equal(t, "event", got, e)
}
