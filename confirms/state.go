package confirms

// state is what is known of the present connections. The gates (what is queued may be
// sent) and readiness (new work is taken on) follow from it.
type state struct {
	session    *session // of publishing; nil before the first
	isolated   *session // of the quarantine; nil while it has none
	generation uint64
	addr       string
	lastErr    error
	suspectErr error // why there is no connection for suspects
}

// change applies f, which changes se's part of the state, if se is a present session, and
// sets gates and readiness. When a gate closes, what waits for an exchange's answer waits no
// more.
func (s *Sender) change(se *session, f func()) {
	s.mu.Lock()
	if se != s.state.session && se != s.state.isolated {
		s.mu.Unlock()
		return
	}
	f()
	closed := s.derive()
	s.mu.Unlock()
	for _, se := range closed {
		for _, p := range se.exchanges.flush() {
			s.requeue(p)
		}
	}
}

// derive sets gates and readiness and returns the sessions whose gate was closed by it.
// Called with mu held, so that they change in the order of the causes.
func (s *Sender) derive() (gateClosed []*session) {
	se, isolated := s.state.session, s.state.isolated
	g := s.known().gates()
	if s.publish.gate.set(g.publish) && !g.publish {
		gateClosed = append(gateClosed, se)
	}
	if s.quarantine.gate.set(g.quarantine) && !g.quarantine && isolated != nil {
		gateClosed = append(gateClosed, isolated)
	}
	s.reserved.setReady(g.ready) // first: whoever has waited for readiness finds room
	s.ready.set(g.ready)
	return gateClosed
}

func (s *Sender) channelUp(se *session) {
	s.change(se, func() { se.channels++; se.live = true })
}

func (s *Sender) channelDown(se *session) { s.change(se, func() { se.channels-- }) }

// channels returns how many channels of the session are open.
func (s *Sender) channels(se *session) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return se.channels
}

func (s *Sender) timedOutChanged(se *session) { s.change(se, func() {}) }

func (s *Sender) setBlocked(se *session, blocked bool, reason string) {
	s.change(se, func() { se.blocked = blocked })
	if blocked {
		s.log.Warn("the broker blocked the connection: storing only", "reason", reason, "role", se.role.name,
			"generation", se.generation)
	} else {
		s.log.Info("the broker released the connection", "role", se.role.name, "generation", se.generation)
	}
	if !se.role.alone {
		s.cfg.observer.Blocked(blocked, reason)
	}
}

// sessionOver closes the publishing gate before the session's sends are concluded.
func (s *Sender) sessionOver(se *session) {
	s.change(se, func() { se.live = false })
}

// retire adds n to the session's retired channels and returns how many there are now.
func (s *Sender) retire(se *session, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	se.retired += n
	return se.retired
}

// known is what gates and readiness follow from. Called with mu held.
func (s *Sender) known() conditions {
	c := conditions{closing: s.closing.Load()}
	if se := s.state.session; se != nil {
		c.live, c.blocked, c.loginRefused = se.live, se.blocked, se.loginBad
		c.channels, c.stalled = se.channels > 0, se.stalled.Load() > 0
	}
	if isolated := s.state.isolated; isolated != nil {
		c.quarantineBlocked = isolated.blocked
	}
	return c
}

// whyNotSent is the text of a deferred outcome.
func (s *Sender) whyNotSent(r *role) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known().whyNotSent(r.alone)
}
