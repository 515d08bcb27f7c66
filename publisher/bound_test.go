package publisher_test

import (
	"testing"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

// A send without an answer is a result to come: with a slow database all of them would
// otherwise wait above the bound, and a crash then repeats them.
func TestMaxUnsettledCountsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	s, snd := newMemStore(), &fakeSender{} // holds every send
	p := open(t, s, snd, func(c *publisher.Config) { c.MaxUnsettled = 3 })
	s.err = errDown
	for range 5 { // What is not stored gives its room back.
		if _, err := p.Publish(t.Context(), msg("k")); err == nil {
			t.Fatal("publish with the database down: got no error")
		}
	}
	s.err = nil
	for range 3 {
		if _, err := p.Publish(t.Context(), msg("k")); err != nil {
			t.Fatal(err)
		}
	}
	above, err := p.PublishBatch(t.Context(), []model.Message{msg("a"), msg("b")})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range above {
		select {
		case <-r.Done(): // Nobody answers sends here, so this one was not sent.
		default:
			t.Errorf("%s was sent above the bound", r.ID())
		}
	}
	if n := snd.count(); n != 3 {
		t.Errorf("sends in envelope: got %d, want 3", n)
	}
	for _, m := range snd.sent {
		snd.finish(m, acked(m))
	}
	if n := snd.held(); n != 0 {
		t.Errorf("room held after all: got %d, want 0", n)
	}
	closeNow(t, p)
}
