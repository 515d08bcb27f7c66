package settle_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/transmsg/transmsg/internal/settle"
	"github.com/transmsg/transmsg/model"
)

// A restored row and each failed write are told, so that they can be counted.
func TestBatcherTellsRestoredRowsAndFailedWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeStore("there", "returned")
		s.discarded["discarded"] = true
		var restored, failed []string
		b := newBatcher(s, func(c *settle.Config) {
			c.OnRestored = func(r *model.TransMessage) { restored = append(restored, r.ID) }
			c.OnError = func(op string, err error) { failed = append(failed, op+": "+err.Error()) }
		})
		s.fail = 1
		b.Add(result("there", model.Acked, ""))
		if err := b.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.fail = 1
		for _, id := range []string{"gone", "returned", "discarded"} {
			b.Add(result(id, model.Returned, model.CodeNoRoute))
		}
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(restored, []string{"gone"}) {
			t.Errorf("restored %q, want the row that was gone alone", restored)
		}
		if want := []string{"delete: database down", "settle: database down"}; !slices.Equal(failed, want) {
			t.Errorf("failed %q, want %q", failed, want)
		}
	})
}
