package confirms

import "testing"

// Every combination of conditions: each gate is closed by just the conditions that concern it,
// and a closed gate has a cause in words.
func TestGates(t *testing.T) {
	t.Parallel()
	const late = "too late to send within the time given"
	for bits := range 1 << 7 {
		on := func(i int) bool { return bits&(1<<i) != 0 }
		c := conditions{
			live: on(0), channels: on(1), blocked: on(2), loginRefused: on(3), stalled: on(4), closing: on(5),
			quarantineBlocked: on(6),
		}
		g := c.gates()
		stops := func(causes ...bool) bool {
			for _, cause := range causes {
				if cause {
					return true
				}
			}
			return false
		}
		if want := !stops(!on(0), on(2), on(3)); g.publish != want {
			t.Errorf("%+v: publish %v, want %v", c, g.publish, want)
		}
		if want := !stops(!on(0), on(2), on(3), on(6)); g.quarantine != want {
			t.Errorf("%+v: quarantine %v, want %v", c, g.quarantine, want)
		}
		if want := !stops(!on(0), !on(1), on(2), on(3), on(4), on(5)); g.ready != want {
			t.Errorf("%+v: ready %v, want %v", c, g.ready, want)
		}
		if why := c.whyNotSent(false); (why == late) != (g.publish && !c.closing) {
			t.Errorf("%+v: publishing is not sent because %q", c, why)
		}
		if why := c.whyNotSent(true); (why == late) != (g.quarantine && !c.closing) {
			t.Errorf("%+v: a suspect is not sent because %q", c, why)
		}
	}
}
