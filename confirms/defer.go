package confirms

// deferQueued gives the sends that wait in the role's queue while its gate is closed their
// outcome: the rows are safe, and the compensator sends them.
func (s *Sender) deferQueued(r *role) {
	for {
		select {
		case <-r.gate.whenOff():
		case <-s.ended:
		}
		select {
		case p := <-r.queue:
			p.deferred(s.whyNotSent(r))
		case <-r.gate.whenOn():
		case <-s.ended:
			// Nothing puts anything there any more.
			s.deferAll(r, s.whyNotSent(r))
			return
		}
	}
}

// deferAll empties the role's queue of what is in it now.
func (s *Sender) deferAll(r *role, why string) {
	for range len(r.queue) {
		select {
		case p := <-r.queue:
			p.deferred(why)
		default:
			return
		}
	}
}

// tellDeferred gives p its outcome in a goroutine of its own: the caller may hold what Done
// takes. Called with sendMu held for reading, or by a goroutine that Close waits for.
func (s *Sender) tellDeferred(p *pending, why string) {
	if s.gone {
		go p.deferred(why) // Close has returned, nobody is left to wait for it
		return
	}
	s.told.Go(func() { p.deferred(why) })
}

// waitTold waits until the goroutines of tellDeferred have ended. When it is called, Send
// alone may still start one.
func (s *Sender) waitTold() {
	s.sendMu.Lock()
	s.gone = true // from here on none is added, so that Wait and Go never meet
	s.sendMu.Unlock()
	s.told.Wait()
}
