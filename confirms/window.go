package confirms

import "time"

// window is the unconfirmed sends of one channel: a bound on count and bytes, each id at
// most once, and the order of sending. It has no lock and starts nothing.
//
// A slot is taken by admit and freed by free, which the tracker calls only after the
// returns that came before the confirmation were read. So there are never more unread
// returns than slots, and a returns channel of that capacity is never full.
type window struct {
	max      int
	maxBytes int64
	ids      map[string]struct{} // the slots
	bytes    int64
	fifo     []*pending // sent and not taken, oldest first
}

type admission uint8

const (
	admitted  admission = iota + 1
	full                // no room now
	duplicate           // the id is in flight
	crowded             // its route has its share
	silent              // its route has its share and answers nothing
)

func newWindow(maxN int, maxBytes int64) window {
	return window{max: maxN, maxBytes: maxBytes, ids: make(map[string]struct{}, maxN)}
}

// admit takes a slot. limit is the count in force, at most max.
func (w *window) admit(id string, bytes int64, limit int) admission {
	if _, ok := w.ids[id]; ok {
		return duplicate
	}
	if n := len(w.ids); n > 0 && (n >= limit || w.bytes+bytes > w.maxBytes) {
		return full
	}
	w.ids[id] = struct{}{}
	w.bytes += bytes
	return admitted
}

// slots returns how many are taken.
func (w *window) slots() int { return len(w.ids) }

// sent queues an admitted send for its confirmation.
func (w *window) sent(p *pending) { w.fifo = append(w.fifo, p) }

// free gives an admitted send's slot back.
func (w *window) free(id string, bytes int64) {
	delete(w.ids, id)
	w.bytes -= bytes
}

// takePrefix removes the oldest sends as long as they are resolved.
func (w *window) takePrefix(resolved func(*pending) bool, into []*pending) []*pending {
	for len(w.fifo) > 0 && resolved(w.fifo[0]) {
		into = append(into, w.fifo[0])
		w.fifo[0] = nil
		w.fifo = w.fifo[1:]
	}
	return into
}

// takeAny removes every send that is resolved, also behind one that is not.
func (w *window) takeAny(resolved func(*pending) bool, into []*pending) []*pending {
	kept := w.fifo[:0]
	for _, p := range w.fifo {
		if resolved(p) {
			into = append(into, p)
		} else {
			kept = append(kept, p)
		}
	}
	clear(w.fifo[len(kept):])
	w.fifo = kept
	return into
}

// expire marks and returns the sends of before the given time that were not marked yet.
// They stay in the window.
func (w *window) expire(before time.Duration) []*pending {
	var expired []*pending
	for _, p := range w.fifo {
		if p.sentAt >= before {
			break
		}
		if !p.timedOut {
			p.timedOut = true
			expired = append(expired, p)
		}
	}
	return expired
}
