package confirms

import "github.com/transmsg/transmsg/model"

// park keeps a send whose route has its share of the window until the route has a slot, so
// that the sends behind it go on. It belongs to run, like unpark.
func (c *channel) park(p *pending, s *share) {
	if len(s.parked) == 0 {
		c.crowded = append(c.crowded, s)
	}
	s.parked = append(s.parked, p)
}

// unpark sends what was parked and has a slot now, in the order of each route. What the
// breaker or the gate holds back by now gets its outcome on the way.
func (c *channel) unpark() {
	if len(c.crowded) == 0 {
		return
	}
	open := c.role.gate.get()
	left, going := c.crowded[:0], []*pending(nil)
	c.mu.Lock()
	for _, s := range c.crowded {
		n := min(len(s.parked), c.shares.vacant(s))
		if !open || c.se.s.routeWaits(s.parked[0]) {
			n = len(s.parked)
		}
		going = append(going, s.parked[:n]...)
		if s.parked = s.parked[n:]; len(s.parked) > 0 {
			left = append(left, s)
		} else {
			s.parked = nil
		}
	}
	clear(c.crowded[len(left):])
	c.crowded = left
	c.mu.Unlock()
	for _, p := range going {
		if c.isOver() {
			c.se.s.requeue(p)
			continue
		}
		p.unparked = true
		c.send(p)
	}
}

// requeueParked hands what is parked on when the channel sends no more.
func (c *channel) requeueParked() {
	for _, s := range c.crowded {
		for _, p := range s.parked {
			c.se.s.requeue(p)
		}
		s.parked = nil
	}
	c.crowded = nil
}

// isOver reports whether the channel sends no more.
func (c *channel) isOver() bool {
	select {
	case <-c.dead:
	case <-c.retired:
	case <-c.se.over:
	default:
		return false
	}
	return true
}

// gateOff is closed when what is parked must be deferred.
func (c *channel) gateOff() <-chan struct{} {
	if len(c.crowded) == 0 {
		return nil
	}
	return c.role.gate.whenOff()
}

// silence makes the breaker hold the route's messages back, p the first of them.
func (c *channel) silence(p *pending) {
	why := unknown(model.CodeTimeout, "its messages are not confirmed while later ones of others are")
	p.finish(c.se.s.broken.Silent(p.Message.Exchange, p.Message.RoutingKey, why))
}

// routeWaits reports whether the breaker would hold p back.
func (s *Sender) routeWaits(p *pending) bool {
	_, waits := s.Waits(p.Message.Exchange, p.Message.RoutingKey)
	return waits
}
