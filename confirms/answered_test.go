package confirms_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
)

// The broker's answers are told with how long they took; the end of a channel is none.
func TestObserverHearsOfAnswers(t *testing.T) {
	t.Parallel()
	answers := make(chan string, 100)
	s, p, conn := scripted(t, func(c *confirms.Config) {
		c.Observers = []confirms.Observer{{Answered: func(k model.OutcomeKind, elapsed time.Duration) {
			answers <- fmt.Sprintf("%s %t", k, elapsed > 0 && elapsed < time.Minute)
		}}}
	})
	r := newResults(t)
	m := take(t, s, r, p, "x", 4)
	must(t, m[0].Nack(false), m[1].Return(312, "NO_ROUTE"), m[1].Ack(false), m[2].Ack(false))
	eventually(t, "three answers", func() bool { return r.count() == 3 })
	conn.Cut()
	r.wait()
	close(answers)
	got := slices.Sorted(func(yield func(string) bool) {
		for a := range answers {
			if !yield(a) {
				return
			}
		}
	})
	if want := []string{"acked true", "nacked true", "returned true"}; !slices.Equal(got, want) {
		t.Errorf("answers %q, want %q", got, want)
	}
}
