package confirms

// state is what is known of the present connection. The gate (anything may be sent) and
// readiness (new work is taken on) follow from it.
type state struct {
	session    *session // nil while there is no connection
	generation uint64
	addr       string
	lanes      int // publishing lanes that are open
	live       bool
	blocked    bool
	retired    map[*role]int
	lastErr    error
}

// change applies f to the state if se is the present session, and sets gate and
// readiness. When the gate closes, what waits for an exchange's answer waits no more.
func (s *Sender) change(se *session, f func(*state)) {
	s.mu.Lock()
	if se != s.state.session {
		s.mu.Unlock()
		return
	}
	f(&s.state)
	closed := s.derive()
	s.mu.Unlock()
	if closed && se != nil {
		for _, p := range se.exchanges.flush() {
			s.requeue(p)
		}
	}
}

// derive sets gate and readiness and reports whether the gate was closed by it. Called
// with mu held, so that they change in the order of the causes.
func (s *Sender) derive() (gateClosed bool) {
	st := &s.state
	open := st.live && !st.blocked
	gateClosed = s.gate.set(open) && !open
	ready := open && st.lanes > 0 && !s.closing.Load() && st.session != nil && st.session.timedOut.Load() == 0
	s.ready.set(ready)
	s.room.setReady(ready)
	return gateClosed
}

func (s *Sender) laneUp(se *session) {
	s.change(se, func(st *state) { st.lanes++; st.live = true })
}

func (s *Sender) laneDown(se *session) { s.change(se, func(st *state) { st.lanes-- }) }

func (s *Sender) timedOutChanged(se *session) { s.change(se, func(*state) {}) }

func (s *Sender) setBlocked(se *session, blocked bool, reason string) {
	s.change(se, func(st *state) { st.blocked = blocked })
	if blocked {
		s.log.Warn("the broker blocked the connection: storing only", "reason", reason, "generation", se.generation)
	} else {
		s.log.Info("the broker released the connection", "generation", se.generation)
	}
	if f := s.cfg.Observer.Blocked; f != nil {
		f(blocked, reason)
	}
}

// sessionOver closes the gate before the session's sends are concluded.
func (s *Sender) sessionOver(se *session) {
	s.change(se, func(st *state) { st.live = false })
}

// retire counts a retired lane of the role and returns how many there are now.
func (s *Sender) retire(r *role) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.retired == nil {
		s.state.retired = make(map[*role]int)
	}
	s.state.retired[r]++
	return s.state.retired[r]
}

// retiredGone takes a closed retired lane off the count.
func (s *Sender) retiredGone(r *role) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.retired[r]--
}

// whyNotSent is the text of a deferred outcome.
func (s *Sender) whyNotSent() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing.Load():
		return "the sender is closed"
	case s.state.blocked:
		return "the broker blocks the connection"
	case !s.state.live:
		return "no connection to the broker"
	}
	return "too late to send within the time given"
}
