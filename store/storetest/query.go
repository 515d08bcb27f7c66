package storetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/transmsg/transmsg/model"
)

func testServices(t *testing.T, s Store) {
	if got, err := s.Services(bound(t)); err != nil || len(got) != 0 {
		t.Fatalf("empty store: got %v, %v", got, err)
	}
	for _, name := range []string{"b", "a", "Zeta", "ä", "later"} {
		rows := drafts(3)
		for i := range rows {
			rows[i].Service = name
			if name == "later" {
				rows[i].Delay = hour
			}
		}
		insert(t, s, rows...)
	}
	got, err := s.Services(bound(t))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "services with due rows", got, []string{"Zeta", "a", "b", "ä"})
}

func testStats(t *testing.T, s Store) {
	existing(t, s)
	later := draft("later")
	later.Delay = hour
	foreign := draft("foreign")
	foreign.Service = "zz"
	insert(t, s, later, foreign)
	start := now(t, s)
	until(t, "the clock moves", func() bool { return now(t, s) > start+1 })
	got, err := s.Stats(bound(t), "")
	if err != nil || len(got) != 2 {
		t.Fatalf("got %+v, %v, want two services", got, err)
	}
	for i := range got {
		if got[i].OldestDue <= 0 || got[i].OldestDue > patience || got[i].OldestReady < got[i].OldestDue {
			t.Errorf("%s: oldest due %s, oldest ready %s", got[i].Service, got[i].OldestDue, got[i].OldestReady)
		}
		got[i].OldestDue, got[i].OldestReady = 0, 0
	}
	equal(t, "stats", got, []model.Stats{
		{Service: svc, Ready: 2, Due: 1, Dead: 1}, {Service: "zz", Ready: 1, Due: 1},
	})
	claim(t, s)
	got, err = s.Stats(bound(t), svc)
	if err != nil || len(got) != 1 || got[0].Due != 0 || got[0].OldestDue != 0 || got[0].OldestReady <= 0 {
		t.Errorf("nothing due: got %+v, %v", got, err)
	}
	if age, err := s.OldestDue(bound(t), svc); err != nil || age != 0 {
		t.Errorf("nothing due: the oldest due row is %s, %v", age, err)
	}
	if age, err := s.OldestDue(bound(t), "zz"); err != nil || age <= 0 || age > patience {
		t.Errorf("the oldest due row of another service is %s, %v", age, err)
	}
	if age, err := s.OldestDue(bound(t), "z"); err != nil || age != 0 {
		t.Errorf("the oldest due row of an unknown service is %s, %v", age, err)
	}
	got, err = s.Stats(bound(t), "unknown")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "stats of an unknown service", got, []model.Stats{{Service: "unknown"}})
}

// A clock that has gone back shows by the rows that were stored before.
func testStatsAhead(t *testing.T, s Store) {
	existing(t, s)
	future := draft("future").TransMessage
	future.CreatedAt = now(t, s) + hour.Milliseconds()
	future.UpdatedAt, future.NextAttemptAt = future.CreatedAt, future.CreatedAt
	if n, err := s.Import(bound(t), []model.TransMessage{future}, actor); err != nil || n != 1 {
		t.Fatalf("imported %d, %v", n, err)
	}
	got, err := s.Stats(bound(t), svc)
	if err != nil || len(got) != 1 || got[0].Ahead > hour || got[0].Ahead < hour-patience {
		t.Errorf("got %+v, %v, want an hour ahead", got, err)
	}
}

func testList(t *testing.T, s Store) {
	ready, dead := existing(t, s)
	special := draft("special", func(m *model.Message) {
		m.Key, m.Exchange, m.RoutingKey = "k", "special", "special.rk"
	})
	special.Service = "zz"
	insert(t, s, special)
	for _, c := range []struct {
		name   string
		filter model.Filter
		want   []string
	}{
		{"all", model.Filter{}, []string{dead.ID, ready.ID, special.ID}},
		{"service", model.Filter{Service: svc}, []string{dead.ID, ready.ID}},
		{"status", model.Filter{Status: model.Dead}, []string{dead.ID}},
		{"code", model.Filter{Code: model.CodeNoRoute}, []string{dead.ID}},
		{"exchange", model.Filter{Exchange: "special"}, []string{special.ID}},
		{"routing key", model.Filter{RoutingKey: "special.rk"}, []string{special.ID}},
		{"key", model.Filter{Key: "k"}, []string{special.ID}},
		{"two at once", model.Filter{Key: "k", Status: model.Dead}, nil},
		{"limit", model.Filter{Limit: 2}, []string{dead.ID, ready.ID}},
		{"after", model.Filter{After: dead.ID}, []string{ready.ID, special.ID}},
	} {
		got, err := s.List(bound(t), c.filter)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		slices.Sort(c.want)
		if !slices.Equal(rowIDs(got), c.want) {
			t.Errorf("%s: got %v, want %v", c.name, rowIDs(got), c.want)
		}
		for _, r := range got {
			if r.Payload != nil || r.Size == 0 {
				t.Errorf("%s: payload of %d bytes and size %d, want only the size", c.name, len(r.Payload), r.Size)
			}
		}
	}
	for _, limit := range []int{-1, 10_001} {
		if _, err := s.List(bound(t), model.Filter{Limit: limit}); err == nil {
			t.Errorf("limit %d is accepted", limit)
		}
	}
}

func testShowUnknown(t *testing.T, s Store) {
	if _, _, err := s.Show(bound(t), model.NewID()); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if err := s.Ping(bound(t)); err != nil {
		t.Errorf("ping: %v", err)
	}
}
