package gormstore_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// TestA2_AnotherLifeOfAnIDIsNotTouched: an id that was deleted and is stored anew is another
// row. What the first life's sender writes late leaves the second alone.
func TestA2_AnotherLifeOfAnIDIsNotTouched(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{})
		first := benchDraft([]byte("one body"))
		first.Epoch = model.NewEpoch()
		second := first
		for second.Epoch == first.Epoch {
			second.Epoch = model.NewEpoch()
		}
		key := model.RowKey{ID: first.ID, Epoch: first.Epoch}
		for _, d := range []model.Draft{first, second} {
			if got, err := s.Insert(t.Context(), []model.Draft{d}); err != nil || got[0] != model.StoredNew {
				t.Fatalf("insert: %v, %v", got, err)
			}
			want := 1 // the ack of the first life, and its repeat after a lost answer
			if d.Epoch == second.Epoch {
				want = 0
			}
			if n, err := s.Delete(t.Context(), []model.RowKey{key}); err != nil || n != want {
				t.Fatalf("delete in the first epoch: %d, %v, want %d", n, err, want)
			}
		}
		met, err := s.Settle(t.Context(), []model.Settlement{{
			ID: first.ID, Epoch: first.Epoch, Status: model.Dead, AttemptsDelta: 1, FailuresDelta: 1,
			Outcome: model.Outcome{Kind: model.Returned, Code: model.CodeNoRoute},
		}})
		if err != nil || met[0] != model.SettledFenced {
			t.Errorf("settled in the first epoch: %v, %v, want fenced", met, err)
		}
		state, err := s.ReadBack(t.Context(), []string{first.ID})
		st := state[first.ID]
		if err != nil || st.Epoch != second.Epoch || st.Version != 0 || st.Status != model.Ready {
			t.Errorf("the second life is %+v, %v", state, err)
		}
	})
}

// TestA2_DeleteGoesByThePrimaryKey: a batch is one statement that reads its own rows, whether its
// rows share an epoch, as those of one publisher do, or not; and it deletes an id in its own epoch
// alone, also where another row of the batch has the epoch.
func TestA2_DeleteGoesByThePrimaryKey(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, dsn string) {
		s := migrated(t, dsn, gormstore.Options{})
		fill(t, s, 2000)
		for _, epochs := range []int{1, 2, 300} {
			rows := batch(300)
			keys := make([]model.RowKey, len(rows))
			first := model.NewEpoch()
			for i := range rows {
				rows[i].Epoch = first + i%epochs
				keys[i] = model.RowKey{ID: rows[i].ID, Epoch: rows[i].Epoch}
			}
			if _, err := s.Insert(t.Context(), rows); err != nil {
				t.Fatal(err)
			}
			query, args := s.DeleteQuery(keys)
			plan := explain(t, s, query, args)
			for _, bad := range []string{"Seq Scan on trans_message", "SCAN m", " ALL "} {
				if strings.Contains(plan, bad) {
					t.Errorf("%d epochs: %s in the plan:\n%.2000s", epochs, bad, plan)
				}
			}
			if epochs > 1 {
				others := slices.Clone(keys)
				for i := range others {
					others[i].Epoch = keys[(i+1)%len(keys)].Epoch
				}
				if n, err := s.Delete(t.Context(), others); err != nil || n != 0 {
					t.Errorf("%d epochs: deleted %d rows in epochs of others, %v", epochs, n, err)
				}
			}
			if n, err := s.Delete(t.Context(), keys); err != nil || n != len(keys) {
				t.Errorf("%d epochs: deleted %d, %v, want %d", epochs, n, err, len(keys))
			}
		}
	})
}
