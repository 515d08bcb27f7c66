package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
)

// testRivals runs what a busy service does all at once: publishers insert and delete in
// batches of any order, claimers take what is due and settle or delete it. No call may
// fail but for rows that a rival holds locked, and no row may stay or be claimed by two.
func testRivals(t *testing.T, s Store) {
	const publishers, claimers, each = 8, 2, 60
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var left atomic.Int64
	left.Store(publishers * each)
	var wg sync.WaitGroup
	for range publishers {
		wg.Go(func() { publishAndDelete(ctx, t, s, each, &left) })
	}
	for i := range claimers {
		wg.Go(func() { claimAndFinish(ctx, t, s, fmt.Sprintf("host-%d", i), &left) })
	}
	wg.Wait()
	if rows, err := s.List(bound(t), model.Filter{}); err != nil || len(rows) != 0 || left.Load() != 0 {
		t.Errorf("%d rows stay in the table, %d are not accounted for (%v)", len(rows), left.Load(), err)
	}
}

// publishAndDelete stores rows; odd ones are due at once and left to the claimers, even
// ones are deleted as if acked.
func publishAndDelete(ctx context.Context, t *testing.T, s Store, n int, left *atomic.Int64) {
	t.Helper()
	var acked []model.RowKey
	for i := range n {
		d := draft("rival")
		if i%2 == 0 {
			d.Delay = hour
			acked = append([]model.RowKey{{ID: d.ID}}, acked...) // falling ids
		}
		if _, err := s.Insert(ctx, []model.Draft{d}); err != nil {
			t.Errorf("insert: %v", err)
			return
		}
		if len(acked) < 10 && i < n-2 {
			continue
		}
		if !deleteAll(ctx, t, s, acked, left) {
			return
		}
		acked = acked[:0]
	}
	if len(acked) > 0 {
		deleteAll(ctx, t, s, acked, left)
	}
}

// deleteAll deletes rows that are there, and again those that a rival held locked: a claim's look
// at its neighbours locks them for a moment, and a delete may then pass them over, with their names.
func deleteAll(ctx context.Context, t *testing.T, s Store, keys []model.RowKey, left *atomic.Int64) bool {
	t.Helper()
	for {
		n, err := s.Delete(ctx, keys)
		left.Add(-int64(n))
		var busy *model.BusyError
		if errors.As(err, &busy) && ctx.Err() == nil {
			held := slices.DeleteFunc(slices.Clone(keys), func(k model.RowKey) bool {
				return !slices.Contains(busy.IDs, k.ID)
			})
			if len(held) == 0 || n != len(keys)-len(held) {
				t.Errorf("deleted %d of %d, of which %d were held", n, len(keys), len(held))
				return false
			}
			keys = held
			continue
		}
		if err != nil || n != len(keys) {
			t.Errorf("delete: %d of %d, %v", n, len(keys), err)
			return false
		}
		return true
	}
}

// claimAndFinish hands every row back once and deletes it the second time.
func claimAndFinish(ctx context.Context, t *testing.T, s Store, who string, left *atomic.Int64) {
	t.Helper()
	for left.Load() > 0 && !t.Failed() {
		c, err := s.Claim(ctx, model.Claim{Service: svc, Instance: who, Lease: hour, MaxRows: 20, MaxBytes: 1 << 20})
		if err != nil {
			t.Errorf("claim: %v", err)
			return
		}
		var back []model.Settlement
		var done []model.RowKey
		for _, r := range c.Rows {
			if r.Attempts == 0 {
				m := returned(r)
				m.Delay = 0
				back = append(back, m)
			} else {
				done = append(done, model.RowKey{ID: r.ID, Epoch: r.Epoch})
			}
		}
		settled, err := s.Settle(ctx, back)
		if err != nil {
			t.Errorf("settle: %v", err)
			return
		}
		for _, f := range settled {
			if f != model.SettledDone {
				t.Errorf("a claimed row was settled by another: %v", f)
			}
		}
		if !deleteAll(ctx, t, s, done, left) {
			return
		}
	}
}
