package confirms

import "time"

// route is what a confirm depends on besides its channel: the queues behind an exchange and
// a routing key.
type route struct{ exchange, key string }

func routeOf(p *pending) route { return route{p.Message.Exchange, p.Message.RoutingKey} }

// A route may have so much of a window that the others go on whatever becomes of it. With
// the default window both bounds are below what makes a broker stop reading a connection:
// 400 messages that a classic queue has not answered, 32 that a quorum queue has not. A route
// that others overtake by longer than overtakenBy has the smaller share.
const (
	shareOf8    = 3 // eighths of the window
	silentShare = 32
	// smallWindow is the window below which a route may have all of it.
	smallWindow = 16
	overtakenBy = time.Second
	// maxIdleShares bounds the memory: beyond it the routes without a send are forgotten.
	maxIdleShares = 4096
)

// share is what one route has of a window.
type share struct {
	n       int           // slots taken
	overdue int           // of these, by timed-out sends
	heard   time.Duration // when the last answered send was sent, or the first that waits
	parked  []*pending    // wait for a slot of their route, in order; the channel's run alone
}

// shares are the routes of one channel. It has no lock: it is guarded by the channel's mu.
type shares struct {
	window   int
	patience time.Duration
	all      map[route]*share
	newest   time.Duration // when the newest answered send was sent
}

func newShares(window int, confirmTimeout time.Duration) shares {
	return shares{window: window, patience: min(overtakenBy, confirmTimeout/4), all: make(map[route]*share)}
}

// of returns the route's share, new or not.
func (w *shares) of(r route) *share {
	s := w.all[r]
	if s != nil {
		return s
	}
	if len(w.all) >= maxIdleShares {
		for r, s := range w.all {
			if s.n == 0 && len(s.parked) == 0 {
				delete(w.all, r)
			}
		}
	}
	s = &share{}
	w.all[r] = s
	return s
}

// admit says whether the route may have one slot more: admitted, crowded or silent.
func (w *shares) admit(s *share) admission {
	switch {
	case w.silent(s):
		return silent
	case w.vacant(s) == 0:
		return crowded
	}
	return admitted
}

// silent reports whether the route has its share of slots without an answer, while sends of
// other routes from well after them are answered.
func (w *shares) silent(s *share) bool {
	return s.n >= max(1, w.window/silentShare) && w.newest-s.heard > w.patience
}

// room is how many slots more the route may have; all that it wants while it is silent, so
// that what is parked learns of it.
func (w *shares) vacant(s *share) int {
	if w.silent(s) {
		return len(s.parked)
	}
	most := w.window * shareOf8 / 8
	if w.window < smallWindow {
		most = w.window
	}
	return max(0, most-s.n)
}

// take counts a slot, sent now.
func (w *shares) take(s *share, now func() time.Duration) {
	if s.n == s.overdue {
		s.heard = now()
	}
	s.n++
}

// expired counts a send as timed out. It keeps its slot.
func (w *shares) expired(p *pending) { p.share.overdue++ }

// free gives the slot of p back.
func (w *shares) free(p *pending) {
	p.share.n--
	if p.timedOut {
		p.share.overdue--
	}
}

// answered notes that the broker answered p.
func (w *shares) answered(p *pending) {
	p.share.heard = max(p.share.heard, p.sentAt)
	w.newest = max(w.newest, p.sentAt)
}
