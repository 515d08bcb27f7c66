package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
)

func testReadBack(t *testing.T, s Store) {
	rows := drafts(3)
	rows[1].Delay = hour
	insert(t, s, rows...)
	claim(t, s, func(c *model.Claim) { c.MaxRows = 1 })
	missing := model.NewID()
	got, err := s.ReadBack(bound(t), append(ids(rows), missing))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 {
		t.Fatalf("got %d rows, want 3: %v", len(got), got)
	}
	leased := 0
	for id, st := range got {
		if st.Status != model.Ready || st.Epoch != 0 {
			t.Errorf("%s: got %+v, want READY in epoch 0", id, st)
		}
		if st.Version == 1 {
			leased++
		}
		if due := st.Version == 0 && id != rows[1].ID; due != (st.LeaseLeft <= 0) {
			t.Errorf("%s: lease left %s with version %d", id, st.LeaseLeft, st.Version)
		}
	}
	if leased != 1 {
		t.Errorf("%d rows at version 1, want the claimed one", leased)
	}
	if got, err := s.ReadBack(bound(t), nil); err != nil || len(got) != 0 {
		t.Errorf("no ids: got %v, %v", got, err)
	}
}

func testRenew(t *testing.T, s Store) {
	_, dead := existing(t, s) // also stores a READY row
	claimed := claim(t, s).Rows[0]
	fresh := draft("fresh")
	fresh.Epoch = model.NewEpoch()
	insert(t, s, fresh)
	other := draft("of another life")
	other.Epoch = model.NewEpoch()
	insert(t, s, other)
	fence := model.RowKey{ID: fresh.ID, Epoch: fresh.Epoch}
	got, err := s.Renew(bound(t), instance, []model.RowKey{
		fence, {ID: claimed.ID}, {ID: dead.ID}, {ID: model.NewID()}, {ID: other.ID, Epoch: other.Epoch + 1},
	}, hour)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "renewed", got, []string{fresh.ID})
	row, _ := show(t, s, fresh.ID)
	if row.Version != 1 || row.ClaimedBy != instance || row.NextAttemptAt < now(t, s)+hour.Milliseconds()/2 {
		t.Errorf("row after renewal: %+v", row)
	}
	if got, err := s.Renew(bound(t), instance, []model.RowKey{fence}, hour); err != nil || len(got) != 0 {
		t.Errorf("second renewal: got %v, %v, want none", got, err)
	}
	if _, err := s.Renew(bound(t), instance, []model.RowKey{fence}, 0); err == nil {
		t.Error("a lease of zero is accepted")
	}
}

func testExtend(t *testing.T, s Store) {
	_, dead := existing(t, s) // also stores a READY row
	claimed := claim(t, s).Rows[0]
	mine := model.Held{ID: claimed.ID, Epoch: claimed.Epoch, Version: claimed.Version}
	old, other := mine, mine
	old.Version--
	other.Epoch++
	gone := model.Held{ID: model.NewID()}
	for _, h := range []model.Held{old, other, gone, {ID: dead.ID, Epoch: dead.Epoch, Version: dead.Version}} {
		if n, err := s.Extend(bound(t), []model.Held{h}, hour); err != nil || n != 0 {
			t.Errorf("a row of others %+v: %d, %v, want none", h, n, err)
		}
	}
	if n, err := s.Extend(bound(t), []model.Held{mine}, hour); err != nil || n != 1 {
		t.Fatalf("the claimed row: %d, %v, want 1", n, err)
	}
	row, _ := show(t, s, claimed.ID)
	if row.Version != claimed.Version || row.NextAttemptAt < now(t, s)+hour.Milliseconds()/2 {
		t.Errorf("row after the extension: %+v", row)
	}
	if _, err := s.Extend(bound(t), []model.Held{mine}, 0); err == nil {
		t.Error("a lease of zero is accepted")
	}
}

func testClaimFields(t *testing.T, s Store) {
	rows := drafts(5)
	insertEach(t, s, rows)
	stored := make([]model.TransMessage, len(rows))
	for i := range rows {
		stored[i], _ = show(t, s, rows[i].ID)
	}
	slices.SortFunc(stored, func(a, b model.TransMessage) int {
		if a.NextAttemptAt != b.NextAttemptAt {
			return int(a.NextAttemptAt - b.NextAttemptAt)
		}
		return slices.Compare([]byte(a.ID), []byte(b.ID))
	})
	before := now(t, s)
	got := claim(t, s)
	if len(got.Rows) != 5 || got.More {
		t.Fatalf("got %d rows, more %t, want 5 and no more", len(got.Rows), got.More)
	}
	for i, row := range got.Rows {
		want := stored[i]
		want.Version, want.Claims, want.ClaimedBy, want.UpdatedAt = 1, 1, instance, row.UpdatedAt
		equal(t, "claimed row", row, want)
		after, _ := show(t, s, row.ID)
		if lease := after.NextAttemptAt - before; lease < hour.Milliseconds() || row.UpdatedAt < before {
			t.Errorf("lease of %d ms, updated at %d, want an hour from %d on", lease, row.UpdatedAt, before)
		}
	}
	last := got.Rows[4]
	equal(t, "last", got.Last, model.Cursor{DueAt: last.NextAttemptAt, ID: last.ID})
}

func testClaimBounds(t *testing.T, s Store) {
	insert(t, s, drafts(5)...)
	seen := map[string]bool{}
	for _, want := range []struct {
		n    int
		more bool
	}{{2, true}, {2, true}, {1, false}, {0, false}} {
		got := claim(t, s, func(c *model.Claim) { c.MaxRows = 2 })
		if len(got.Rows) != want.n || got.More != want.more {
			t.Errorf("got %d rows, more %t, want %d, %t", len(got.Rows), got.More, want.n, want.more)
		}
		for _, r := range got.Rows {
			if seen[r.ID] {
				t.Errorf("row %s was claimed twice", r.ID)
			}
			seen[r.ID] = true
		}
	}
	if len(seen) != 5 {
		t.Errorf("claimed %d rows, want 5", len(seen))
	}
}

func testClaimBytes(t *testing.T, s Store) {
	rows := []model.Draft{draft(string(make([]byte, 5000))), draft(string(make([]byte, 900))), draft("small")}
	insertEach(t, s, rows)
	got := claim(t, s, func(c *model.Claim) { c.MaxBytes = 1000 })
	if len(got.Rows) != 1 || got.Rows[0].ID != rows[0].ID || !got.More {
		t.Fatalf("got %d rows, more %t, want the large one alone", len(got.Rows), got.More)
	}
	// What lay beyond the bound is free and comes next, also with the cursor.
	got = claim(t, s, func(c *model.Claim) { c.MaxBytes, c.After = 1<<20, got.Last })
	equal(t, "the rest", rowIDs(got.Rows), []string{rows[1].ID, rows[2].ID})
	if got.More {
		t.Error("more is true although all is claimed")
	}
}

// testClaimBodies claims bodies and headers of all sizes, again and again: what was claimed
// before decides how a store reads them.
func testClaimBodies(t *testing.T, s Store) {
	sizes := []int{0, 1, 7000, 8001, 0, 70_000, 300}
	rows := make([]model.Draft, len(sizes))
	want := map[string]string{}
	for i, n := range sizes {
		body := strings.Repeat(string(rune('a'+i)), n)
		rows[i] = draft(body, func(m *model.Message) {
			if i%3 == 1 { // small body, large headers
				m.Headers = map[string]any{"h": strings.Repeat("x", 20_000)}
			}
		})
		want[rows[i].ID] = body
	}
	insert(t, s, rows...)
	for version, n := range []int{1, 3, len(rows), 2, 2, len(rows)} {
		got := claim(t, s, func(c *model.Claim) { c.MaxRows = n })
		if len(got.Rows) != n {
			t.Fatalf("claim %d: got %d rows, want %d", version, len(got.Rows), n)
		}
		list := make([]model.Settlement, n)
		for i, r := range got.Rows {
			if string(r.Payload) != want[r.ID] {
				t.Errorf("claim %d: body of %d bytes, want %d", version, len(r.Payload), len(want[r.ID]))
			}
			stored, _ := show(t, s, r.ID)
			r.NextAttemptAt = stored.NextAttemptAt
			equal(t, "row as stored", r, stored)
			list[i] = returned(r)
			list[i].Delay = 0
		}
		settle(t, s, list...)
	}
}

func testClaimAfter(t *testing.T, s Store) {
	rows := drafts(6)
	insert(t, s, rows...)
	first := claim(t, s, func(c *model.Claim) { c.MaxRows = 4 })
	// The first four are due again at once; the cursor passes over them.
	for _, r := range first.Rows {
		m := returned(r)
		m.Delay = 0
		settle(t, s, m)
	}
	second := claim(t, s, func(c *model.Claim) { c.After, c.MaxRows = first.Last, 2 })
	if len(second.Rows) != 2 {
		t.Fatalf("got %d rows after the cursor, want 2", len(second.Rows))
	}
	for _, r := range second.Rows {
		if slices.Contains(rowIDs(first.Rows), r.ID) && r.NextAttemptAt <= first.Last.DueAt {
			t.Errorf("row %s lies before the cursor", r.ID)
		}
		if c := (model.Cursor{DueAt: r.NextAttemptAt, ID: r.ID}); !after(c, first.Last) {
			t.Errorf("row at %+v is not after %+v", c, first.Last)
		}
	}
}

func after(a, b model.Cursor) bool { return a.DueAt > b.DueAt || a.DueAt == b.DueAt && a.ID > b.ID }

func testClaimNotDue(t *testing.T, s Store) {
	existing(t, s) // one READY and due, one DEAD
	later, foreign := draft("later"), draft("foreign")
	later.Delay, foreign.Service = hour, "other"
	insert(t, s, later, foreign)
	if got := claim(t, s); len(got.Rows) != 1 || string(got.Rows[0].Payload) != "ready" {
		t.Errorf("claimed %d rows, want the due one of the service alone", len(got.Rows))
	}
	if got := claim(t, s); len(got.Rows) != 0 || got.More || got.Last != (model.Cursor{}) {
		t.Errorf("claim of nothing: got %+v", got)
	}
}

func testClaimLease(t *testing.T, s Store) {
	insert(t, s, draft("one"))
	short := func(c *model.Claim) { c.Lease = time.Millisecond }
	if got := claim(t, s, short); len(got.Rows) != 1 {
		t.Fatalf("got %d rows, want 1", len(got.Rows))
	}
	until(t, "the lease ends", func() bool {
		got := claim(t, s)
		if len(got.Rows) == 1 && (got.Rows[0].Version != 2 || got.Rows[0].Claims != 2) {
			t.Errorf("second claim: version %d, claims %d, want 2 and 2", got.Rows[0].Version, got.Rows[0].Claims)
		}
		return len(got.Rows) == 1
	})
}

func testClaimInvalid(t *testing.T, s Store) {
	good := model.Claim{Service: svc, Instance: instance, Lease: hour, MaxRows: 1, MaxBytes: 1}
	for name, edit := range map[string]func(*model.Claim){
		"no rows":       func(c *model.Claim) { c.MaxRows = 0 },
		"too many rows": func(c *model.Claim) { c.MaxRows = 1 << 20 },
		"no bytes":      func(c *model.Claim) { c.MaxBytes = 0 },
		"no lease":      func(c *model.Claim) { c.Lease = 0 },
	} {
		c := good
		edit(&c)
		if _, err := s.Claim(bound(t), c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func testClaimsSplit(t *testing.T, s Store) {
	const rows, claimers = 300, 4
	insert(t, s, drafts(rows)...)
	got := make([][]string, claimers)
	var wg sync.WaitGroup
	for i := range claimers {
		wg.Go(func() {
			for {
				c, err := s.Claim(bound(t), model.Claim{
					Service: svc, Instance: fmt.Sprintf("host-%d", i), Lease: hour, MaxRows: 25, MaxBytes: 1 << 20,
				})
				if err != nil {
					t.Errorf("claim: %v", err)
					return
				}
				if len(c.Rows) == 0 {
					return
				}
				got[i] = append(got[i], rowIDs(c.Rows)...)
			}
		})
	}
	wg.Wait()
	all := slices.Concat(got...)
	slices.Sort(all)
	if n := len(slices.Compact(slices.Clone(all))); n != len(all) {
		t.Errorf("%d of %d rows were claimed twice", len(all)-n, len(all))
	}
	// A claimer may stop while another holds the last rows; those are not lost.
	all = append(all, rowIDs(claim(t, s, func(c *model.Claim) { c.MaxRows = rows }).Rows)...)
	if len(all) != rows {
		t.Errorf("claimed %d rows, want %d", len(all), rows)
	}
}
