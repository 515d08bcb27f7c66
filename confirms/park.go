package confirms

import "github.com/transmsg/transmsg/model"

// park keeps a send whose route has its share of the window until the route has a slot, so
// that the sends behind it go on. It belongs to run, like unpark.
func (l *lane) park(p *pending, s *share) {
	if len(s.parked) == 0 {
		l.crowded = append(l.crowded, s)
	}
	s.parked = append(s.parked, p)
}

// unpark sends what was parked and has a slot now, in the order of each route. What the
// breaker or the gate holds back by now gets its outcome on the way.
func (l *lane) unpark() {
	if len(l.crowded) == 0 {
		return
	}
	open := l.role.gate.get()
	left, going := l.crowded[:0], []*pending(nil)
	l.mu.Lock()
	for _, s := range l.crowded {
		n := min(len(s.parked), l.shares.room(s))
		if !open || l.se.s.routeWaits(s.parked[0]) {
			n = len(s.parked)
		}
		going = append(going, s.parked[:n]...)
		if s.parked = s.parked[n:]; len(s.parked) > 0 {
			left = append(left, s)
		} else {
			s.parked = nil
		}
	}
	clear(l.crowded[len(left):])
	l.crowded = left
	l.mu.Unlock()
	for _, p := range going {
		if l.isOver() {
			l.se.s.requeue(p)
			continue
		}
		p.unparked = true
		l.send(p)
	}
}

// requeueParked hands what is parked on when the lane sends no more.
func (l *lane) requeueParked() {
	for _, s := range l.crowded {
		for _, p := range s.parked {
			l.se.s.requeue(p)
		}
		s.parked = nil
	}
	l.crowded = nil
}

// isOver reports whether the lane sends no more.
func (l *lane) isOver() bool {
	select {
	case <-l.dead:
	case <-l.retired:
	case <-l.se.over:
	default:
		return false
	}
	return true
}

// gateOff is closed when what is parked must be deferred.
func (l *lane) gateOff() <-chan struct{} {
	if len(l.crowded) == 0 {
		return nil
	}
	return l.role.gate.whenOff()
}

// silence makes the breaker hold the route's messages back, p the first of them.
func (l *lane) silence(p *pending) {
	why := unknown(model.CodeTimeout, "its messages are not confirmed while later ones of others are")
	p.finish(l.se.s.broken.Silent(p.Message.Exchange, p.Message.RoutingKey, why))
}

// routeWaits reports whether the breaker would hold p back.
func (s *Sender) routeWaits(p *pending) bool {
	_, waits := s.Waits(p.Message.Exchange, p.Message.RoutingKey)
	return waits
}
