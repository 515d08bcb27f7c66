package confirms

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/transmsg/transmsg/model"
)

// TestWindow walks the window against a model: bounds on count and bytes, one slot per
// id, nothing lost and nothing taken twice, order of age.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const maxN, maxBytes = 5, 50
		w := newWindow(maxN, maxBytes)
		var inFlight []*pending // by age
		done := map[*pending]bool{}
		slots := map[string]int64{}
		var now time.Duration
		taken := func(ps []*pending) {
			for _, p := range ps {
				if !done[p] {
					t.Fatalf("took %s, which is not resolved", p.Message.ID)
				}
				delete(done, p)
				inFlight = remove(inFlight, p)
				w.free(p.Message.ID, p.size())
				delete(slots, p.Message.ID)
			}
		}
		isDone := func(p *pending) bool { return done[p] }
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				id := fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "id"))
				size := rapid.IntRange(0, 60).Draw(t, "size")
				limit := rapid.IntRange(1, maxN).Draw(t, "limit")
				var sum int64
				for _, n := range slots {
					sum += n
				}
				_, dup := slots[id]
				want := admitted
				switch {
				case dup:
					want = duplicate
				case len(slots) > 0 && (len(slots) >= limit || sum+int64(size) > maxBytes):
					want = full
				}
				got := w.admit(id, int64(size), limit)
				if got != want {
					t.Fatalf("admit: got %d, want %d with %v", got, want, slots)
				}
				if got != admitted {
					return
				}
				now++
				p := &pending{Send: Send{Message: &model.Message{ID: id, Body: make([]byte, size)}}, sentAt: now}
				slots[id] = int64(size)
				w.sent(p)
				inFlight = append(inFlight, p)
			},
			"resolve": func(t *rapid.T) {
				if len(inFlight) > 0 {
					done[rapid.SampledFrom(inFlight).Draw(t, "which")] = true
				}
			},
			"prefix": func(t *rapid.T) {
				var want []*pending
				for _, p := range inFlight {
					if !done[p] {
						break
					}
					want = append(want, p)
				}
				got := w.takePrefix(isDone, nil)
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("prefix: got %d sends, want %d", len(got), len(want))
				}
				taken(got)
			},
			"any": func(t *rapid.T) {
				n := len(done)
				got := w.takeAny(isDone, nil)
				if len(got) != n {
					t.Fatalf("took %d, want the %d resolved", len(got), n)
				}
				taken(got)
			},
			"expire": func(t *rapid.T) {
				before := time.Duration(rapid.IntRange(0, int(now)+1).Draw(t, "before"))
				var want []*pending
				for _, p := range inFlight {
					if p.sentAt < before && !p.timedOut {
						want = append(want, p)
					}
				}
				if got := w.expire(before); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("expired %d, want %d", len(got), len(want))
				}
			},
			"": func(t *rapid.T) {
				if len(w.fifo) != len(inFlight) || len(w.ids) != len(slots) || len(w.ids) > maxN {
					t.Fatalf("window has %d sends and %d slots, want %d and %d",
						len(w.fifo), len(w.ids), len(inFlight), len(slots))
				}
				for i, p := range inFlight {
					if w.fifo[i] != p {
						t.Fatal("order of age is broken")
					}
				}
			},
		})
	})
}

func remove(ps []*pending, gone *pending) []*pending {
	var out []*pending
	for _, p := range ps {
		if p != gone {
			out = append(out, p)
		}
	}
	return out
}

func TestLate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		elapsed, wall, within time.Duration
		want                  bool
	}{
		"in time":          {time.Second, time.Second, 2 * time.Second, false},
		"at the bound":     {2 * time.Second, 2 * time.Second, 2 * time.Second, false},
		"past it":          {2*time.Second + 1, 2 * time.Second, 2 * time.Second, true},
		"machine slept":    {time.Second, 2*time.Second + 1, 10 * time.Second, true},
		"clock set back":   {2*time.Second + 1, time.Second, 10 * time.Second, true},
		"small drift":      {2 * time.Second, time.Second, 10 * time.Second, false},
		"no bound at all":  {time.Hour, 2 * time.Hour, 0, false},
		"time in the past": {-time.Second, -time.Second, time.Second, false},
	} {
		if got := late(c.elapsed, c.wall, c.within); got != c.want {
			t.Errorf("%s: late = %t", name, got)
		}
	}
}
