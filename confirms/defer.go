package confirms

import "github.com/transmsg/transmsg/model"

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

// tellDeferred tells that p is not sent now; see tell.
func (s *Sender) tellDeferred(p *pending, why string) { s.tell(p, notSent(why)) }

// tell gives p its outcome in a goroutine of its own: the caller may hold what Done
// takes. Called with sendMu held for reading, or by a goroutine that Close waits for.
func (s *Sender) tell(p *pending, o model.Outcome) {
	if s.gone {
		go p.finish(o) // Close has returned, nobody is left to wait for it
		return
	}
	s.told.Go(func() { p.finish(o) })
}

// waitTold waits until the goroutines of tellDeferred have ended. When it is called, Send
// alone may still start one.
func (s *Sender) waitTold() {
	s.sendMu.Lock()
	s.gone = true // from here on none is added, so that Wait and Go never meet
	s.sendMu.Unlock()
	s.told.Wait()
}
