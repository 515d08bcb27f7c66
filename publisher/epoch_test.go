package publisher_test

import (
	"testing"

	"github.com/transmsg/transmsg/model"
)

// TestA2_EachLifeOfAnIDHasItsEpoch: the ids that a publisher makes have one life and share its
// epoch, so that a batch of them is deleted by one condition on it; an id that the caller gives may
// have had another life, and has an epoch of its own each time. Another publisher has another one.
func TestA2_EachLifeOfAnIDHasItsEpoch(t *testing.T) {
	t.Parallel()
	shared := map[int]bool{}
	for range 2 {
		s := newMemStore()
		p := open(t, s, &fakeSender{full: true}, nil) // nothing is sent, the rows stay
		epochOf := func(m model.Message) int {
			r, err := p.Publish(t.Context(), m)
			must(t, err)
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.rows[r.ID()].Epoch
		}
		first := epochOf(msg("ex"))
		if again := epochOf(msg("ex")); first != again {
			t.Errorf("two ids of one publisher have the epochs %d and %d", first, again)
		}
		given := msg("ex")
		given.ID = model.StableID("order", "1")
		other := msg("ex")
		other.ID = model.StableID("order", "2")
		if a, b := epochOf(given), epochOf(other); a == first || b == first || a == b {
			t.Errorf("given ids have the epochs %d and %d beside %d, want three", a, b, first)
		}
		shared[first] = true
		closeNow(t, p)
	}
	if len(shared) != 2 || shared[0] {
		t.Errorf("two publishers have the epochs %v, want two that are random", shared)
	}
}
