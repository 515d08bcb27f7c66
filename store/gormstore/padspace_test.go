package gormstore_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// TestT5_TrailingSpacesAreOtherNames: names that differ in trailing spaces alone are listed,
// counted, selected, claimed and purged each for itself or all, and none is forgotten.
func TestT5_TrailingSpacesAreOtherNames(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{})
		names := []string{"pay", "pay ", "pay  "}
		var list []model.Settlement
		want := map[string]int{}
		for i, service := range names {
			for j, name := range names {
				for range i + j + 1 {
					d := benchDraft([]byte("x"))
					d.Service, d.Exchange, d.RoutingKey = service, name, name
					if _, err := s.Insert(t.Context(), []model.Draft{d}); err != nil {
						t.Fatal(err)
					}
					list = append(list, model.Settlement{
						ID: d.ID, Status: model.Dead,
						Outcome: model.Outcome{Kind: model.Returned, Code: model.CodeNoRoute},
					})
					want[fmt.Sprintf("%q/%q", service, name)]++
				}
			}
		}
		if _, err := s.Settle(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		groups, err := s.Groups(t.Context(), model.Filter{})
		got := map[string]int{}
		for _, g := range groups {
			if g.Exchange != g.RoutingKey {
				t.Errorf("group of exchange %q and key %q", g.Exchange, g.RoutingKey)
			}
			got[fmt.Sprintf("%q/%q", g.Service, g.Exchange)] += int(g.Rows)
		}
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("groups %v, %v, want %v", got, err, want)
		}
		// 6, 9 and 12 rows of the three services.
		for i, service := range names {
			n := 6 + 3*i
			sel := model.Selection{Filter: model.Filter{Service: service, Status: model.Dead}}
			if p, err := s.Select(t.Context(), sel); err != nil || p.Rows != n {
				t.Errorf("select of %q: %d rows, %v, want %d", service, p.Rows, err, n)
			}
			if st, err := s.Stats(t.Context(), service); err != nil || len(st) != 1 || st[0].Dead != int64(n) {
				t.Errorf("stats of %q: %+v, %v, want one with %d", service, st, err, n)
			}
		}
		if st, err := s.Stats(t.Context(), ""); err != nil || len(st) != 3 {
			t.Errorf("stats of all: %+v, %v, want three services", st, err)
		}
		sel := model.Selection{Filter: model.Filter{Status: model.Dead}}
		if p, err := s.Select(t.Context(), sel); err != nil || p.Rows != len(list) {
			t.Errorf("select of all DEAD rows: %d, %v, want %d", p.Rows, err, len(list))
		}
		owed, err := s.ClaimDead(t.Context(), model.DeadClaim{Instance: "o", Lease: time.Hour, MaxRows: 100})
		if err != nil || len(owed) != len(list) {
			t.Errorf("%d alerts claimed, %v, want %d", len(owed), err, len(list))
		}
		keys := make([]model.RowKey, len(owed))
		for i := range owed {
			keys[i] = model.RowKey{ID: owed[i].ID, Epoch: owed[i].Epoch}
		}
		if _, err := s.MarkAlerted(t.Context(), keys, 1000*time.Hour); err != nil {
			t.Fatal(err)
		}
		eventually(t, "all rows are purged by age", func() bool {
			if _, err := s.PurgeDead(t.Context(), time.Millisecond, 100); err != nil {
				t.Fatal(err)
			}
			p, err := s.Select(t.Context(), sel)
			return err == nil && p.Rows == 0
		})
	})
}
