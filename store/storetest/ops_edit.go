package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
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

// Of edits at the same time that were made for the same content one is done, and the
// others are told.
func testEditRivals(t *testing.T, s Store) {
	const rivals = 4
	row := dead(t, s, 1)[0]
	errs, start := make([]error, rivals), make(chan struct{})
	var wg sync.WaitGroup
	for i := range rivals {
		wg.Go(func() {
			key, epoch := fmt.Sprint("key-", i), row.Epoch
			<-start
			errs[i] = s.Edit(bound(t), row.ID, model.Edit{RoutingKey: &key, Epoch: &epoch, Actor: actor})
		})
	}
	close(start)
	wg.Wait()
	got, events := show(t, s, row.ID)
	if got.Epoch != row.Epoch+1 {
		t.Errorf("epoch %d, want %d: one edit", got.Epoch, row.Epoch+1)
	}
	edits := 0
	for _, e := range events {
		if e.Kind == model.EventEdit {
			edits++
		}
	}
	if edits != 1 {
		t.Errorf("%d events of edits, want 1", edits)
	}
	for i, err := range errs {
		switch won := got.RoutingKey == fmt.Sprint("key-", i); {
		case won && err != nil:
			t.Errorf("rival %d: %v, and the row is as it wants", i, err)
		case !won && !errors.Is(err, model.ErrChanged):
			t.Errorf("rival %d: %v, want ErrChanged", i, err)
		}
	}
	// Whoever looks again may edit.
	key := "again"
	if err := s.Edit(bound(t), row.ID, model.Edit{RoutingKey: &key, Epoch: &got.Epoch, Actor: actor}); err != nil {
		t.Errorf("edit of what was read last: %v", err)
	}
}

func testEditProperties(t *testing.T, s Store) {
	row := dead(t, s, 1, func(m *model.Message) { m.Headers = map[string]any{"a": int64(1)} })[0]
	headers := map[string]any{"b": 2, "c": "three"}
	yes := true
	err := s.Edit(bound(t), row.ID, model.Edit{
		Properties: &model.Properties{Type: "paid", Priority: 3}, Headers: &headers, AllowUnroutable: &yes,
		Actor: actor,
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
	published.Delay, published.ClaimedBy = hour, instance
	corrupt.Properties = []byte(`{"v":1,"headers":7}`)
	waiting := draft("waiting")
	waiting.Delay = hour
	insert(t, s, published, waiting)
	kill(t, s, []model.Draft{corrupt}, model.Outcome{Kind: model.Refused, Code: model.CodeCorrupt})
	key, bad, other := "k", "line\nbreak", 1
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
		{"of another epoch", waiting.ID, model.Edit{RoutingKey: &key, Actor: actor, Epoch: &other}, model.ErrChanged},
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
