package confirms

import (
	"sync/atomic"

	"github.com/transmsg/transmsg/internal/breaker"
	"github.com/transmsg/transmsg/model"
)

// Stats is a snapshot of a [Sender]. Counters only grow. Connected to Addr are those of the
// publishing connection; the sends are those of the quarantine's connection too.
type Stats struct {
	Ready      bool
	Connected  bool
	Blocked    bool
	Generation uint64 // connections made so far
	Addr       string // of the present or last connection

	Pending      int   // reserved, or sent and not done
	PendingBytes int64 // their body bytes
	InFlight     int   // on the wire and unconfirmed, timed-out ones included
	TimedOut     int   // of these, the timed-out ones

	// Outcomes by kind.
	Acked, Nacked, Returned, Refused, Unknown, Deferred uint64
	LateAcks                                            uint64
	// Overdue counts the sends without a confirm within ConfirmTimeout: each may be in its
	// queue, so that the next send of its row is perhaps a copy. LateAcks are of these.
	Overdue uint64
	// SilentRoutes are the exchanges with a routing key that are not confirmed: their messages
	// wait, but for one at a time.
	SilentRoutes int
}

// Stats returns a snapshot.
func (s *Sender) Stats() Stats {
	n, bytes := s.reserved.used()
	s.mu.Lock()
	st := Stats{
		Ready: s.ready.get(), Generation: s.state.generation, Addr: s.state.addr,
		Pending: n, PendingBytes: bytes,
	}
	if se := s.state.session; se != nil {
		st.Connected, st.Blocked = se.live, se.blocked
	}
	for _, se := range [...]*session{s.state.session, s.state.isolated} {
		if se != nil {
			st.InFlight += int(se.inFlight.Load())
			st.TimedOut += int(se.timedOut.Load())
		}
	}
	s.mu.Unlock()
	c := &s.counts
	st.Acked, st.Nacked = c.kinds[model.Acked].Load(), c.kinds[model.Nacked].Load()
	st.Returned, st.Refused = c.kinds[model.Returned].Load(), c.kinds[model.Refused].Load()
	st.Unknown, st.Deferred = c.kinds[model.Unknown].Load(), c.kinds[model.Deferred].Load()
	st.LateAcks, st.Overdue = c.lateAcks.Load(), c.overdue.Load()
	st.SilentRoutes = s.broken.Broken(breaker.Route)
	return st
}

type counts struct {
	kinds    [model.Deferred + 1]atomic.Uint64
	lateAcks atomic.Uint64
	overdue  atomic.Uint64
}

func (c *counts) add(k model.OutcomeKind) { c.kinds[k].Add(1) }
