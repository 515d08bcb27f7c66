package storetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/model"
)

func testSelect(t *testing.T, s Store) {
	dead(t, s, 3)
	refused := []model.Draft{draft("a"), draft("b")}
	kill(t, s, refused, model.Outcome{Kind: model.Refused, Code: model.CodeNotFound, Text: "404"})
	other := draft("other")
	other.Service = "zz"
	insert(t, s, other)
	p, err := s.Select(bound(t), model.Selection{Filter: allDead()})
	if err != nil {
		t.Fatal(err)
	}
	if p.Rows != 5 || p.More || p.Leased != 0 || len(p.Samples) != 5 || p.Samples[0].Payload != nil {
		t.Errorf("preview %+v", p)
	}
	var size int64
	for _, r := range p.Samples {
		size += int64(r.Size)
	}
	if p.Bytes != size {
		t.Errorf("%d bytes, want %d", p.Bytes, size)
	}
	equal(t, "causes", p.Causes, []model.CauseCount{
		{Status: model.Dead, Code: model.CodeNoRoute, Rows: 3}, {Status: model.Dead, Code: model.CodeNotFound, Rows: 2},
	})
	for _, c := range []struct {
		name string
		sel  model.Selection
		rows int
		more bool
	}{
		{"max", model.Selection{Filter: allDead(), Max: 4}, 4, true},
		{"exactly max", model.Selection{Filter: allDead(), Max: 5}, 5, false},
		{"service", model.Selection{Filter: model.Filter{Service: "zz"}}, 1, false},
		{"any status", model.Selection{Filter: model.Filter{Exchange: "ex"}}, 6, false},
		{"ids", model.Selection{IDs: []string{other.ID, refused[0].ID, refused[0].ID, model.NewID()}}, 2, false},
		{"ids and filter", model.Selection{IDs: []string{other.ID, refused[0].ID}, Filter: allDead()}, 1, false},
		{"ids above max", model.Selection{IDs: ids(refused), Max: 1}, 1, true},
	} {
		p, err := s.Select(bound(t), c.sel)
		if err != nil || p.Rows != c.rows || p.More != c.more {
			t.Errorf("%s: %d rows, more %t, %v, want %d, %t", c.name, p.Rows, p.More, err, c.rows, c.more)
		}
	}
	if _, err := s.Select(bound(t), model.Selection{}); err == nil {
		t.Error("a selection that names nothing is accepted")
	}
}

func testOlderThan(t *testing.T, s Store) {
	old := dead(t, s, 1, func(m *model.Message) { m.Key = "k " })[0]
	later(t, s)
	f := model.Filter{Key: "k ", OlderThan: 1}
	for name, want := range map[string]int{"young": 0, "old": 1} {
		if f.OlderThan = hour; name == "old" {
			f.OlderThan = 2e6
		}
		list, err := s.List(bound(t), f)
		if err != nil || len(list) != want {
			t.Errorf("list, %s: %d rows, %v, want %d", name, len(list), err, want)
		}
		p, err := s.Select(bound(t), model.Selection{Filter: f})
		if err != nil || p.Rows != want {
			t.Errorf("select, %s: %d rows, %v, want %d", name, p.Rows, err, want)
		}
	}
	f.OlderThan = hour
	replay(t, s, act(f), 0, 0)
	f.OlderThan, f.Key = 2e6, "k"
	replay(t, s, act(f), 0, 0)
	f.Key = "k "
	replay(t, s, act(f), 0, 1)
	if e := lastEvent(t, s, old.ID); !strings.Contains(e.Text, `key="k "`) || !strings.Contains(e.Text, "older=2ms") {
		t.Errorf("event text %q", e.Text)
	}
}

func testGroups(t *testing.T, s Store) {
	first := dead(t, s, 3, func(m *model.Message) { m.Key = "order-1" })
	a, _ := show(t, s, first[0].ID)
	later(t, s)
	more := dead(t, s, 1)
	b, _ := show(t, s, more[0].ID)
	dead(t, s, 2, func(m *model.Message) { m.RoutingKey = "other" })
	foreign := []model.Draft{draft("foreign")}
	foreign[0].Service = "zz"
	kill(t, s, foreign, model.Outcome{Kind: model.Refused, Code: model.CodeNotFound})
	insert(t, s, draft("ready"))
	got, err := s.Groups(bound(t), model.Filter{})
	if err != nil || len(got) != 3 {
		t.Fatalf("groups %+v, %v, want 3", got, err)
	}
	all := append(ids(first), more[0].ID)
	slices.Sort(all)
	equal(t, "largest group", got[0], model.Group{
		Service: svc, Exchange: "ex", RoutingKey: "rk", Code: model.CodeNoRoute, Rows: 4,
		First: a.UpdatedAt, Last: b.UpdatedAt, SampleID: all[0], SampleKey: "order-1",
	})
	if g := got[1]; g.Rows != 2 || g.RoutingKey != "other" {
		t.Errorf("second group %+v", g)
	}
	if g := got[2]; g.Rows != 1 || g.Service != "zz" || g.Code != model.CodeNotFound || g.SampleID != foreign[0].ID {
		t.Errorf("third group %+v", g)
	}
	alerted(t, s)
	after, err := s.Groups(bound(t), model.Filter{Service: svc, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "after the alert, one service", after, got[:1])
	ready, err := s.Groups(bound(t), model.Filter{Status: model.Ready})
	if err != nil || len(ready) != 1 || ready[0].Rows != 1 {
		t.Errorf("READY: %+v, %v", ready, err)
	}
}
