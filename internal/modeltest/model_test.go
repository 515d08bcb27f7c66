package modeltest_test

import "github.com/transmsg/transmsg/model"

// The walk's policy, in minutes of its own clock.
const (
	baseDelay   = 10
	maxDelay    = 120
	maxAttempts = 2
	firstLease  = 30 // lease of a row that its publisher sends
	claimLease  = 60
	sendTail    = 2 // a row whose lease has ended may still be on the wire
)

// row is what must be in the table.
type row struct {
	Status             model.Status
	Attempts, Failures int
	Claims             int
	Version, Epoch     int
	Instance           string
	Body               string
	Due                int // minutes on the walk's clock
}

// message is one message and its fate.
type message struct {
	row       *row         // nil: not in the table
	epoch     int          // the newest epoch that it ever had
	discarded bool         // by an operator
	accepted  map[int]bool // epochs that the broker has taken
}

// flight is one send: the row as its sender knows it.
type flight struct {
	id       string
	sent     model.TransMessage
	actor    string
	accepted bool // the broker took it
	timedOut bool // unknown was told, an ack may still come
	lateAck  func()
}

// backoff is the delay after the n-th failure.
func backoff(n int) int {
	d := baseDelay
	for range n - 1 {
		d = min(2*d, maxDelay)
	}
	return d
}

// settle is what an outcome does to the row, by the table in README.md.
func (m *message) settle(f *flight, o model.Outcome, clock int) {
	if o.Kind == model.Acked {
		m.acked(f)
		return
	}
	answered := o.Kind == model.Nacked || o.Kind == model.Returned || o.Kind == model.Refused
	if m.row == nil && answered && !m.discarded {
		// Gone, although the broker says that it does not have it: inserted again.
		m.row = &row{
			Attempts: f.sent.Attempts, Failures: f.sent.Failures, Version: f.sent.Version, Epoch: f.sent.Epoch,
			Body: string(f.sent.Payload),
		}
	}
	if m.row == nil || m.row.Version != f.sent.Version || m.row.Epoch != f.sent.Epoch {
		return // somebody else's by now, or another life of the row
	}
	r := m.row
	r.Status, r.Due = model.Ready, clock
	// What follows is decided by the counts that were sent. They are the row's, but where
	// another send's row was inserted again and happens to have this one's version: then it
	// may be DEAD one try later.
	attempts, failures := f.sent.Attempts+1, f.sent.Failures+1
	switch o.Kind {
	case model.Nacked, model.Returned, model.Refused:
		r.Attempts++
		r.Failures++
		if attempts >= maxAttempts || o.Permanent {
			r.Status = model.Dead
		} else {
			r.Due = clock + backoff(failures)
		}
	case model.Unknown:
		r.Failures++
		if o.Code == model.CodeTimeout {
			r.Due = clock + backoff(failures)
		} else {
			r.Due = clock + baseDelay
		}
	case model.Acked, model.Deferred:
	}
	r.Version++
	r.Claims = 0
	r.Instance = ""
}

// acked deletes the row whatever its version, in the epoch that was sent alone.
func (m *message) acked(f *flight) {
	if m.row != nil && m.row.Epoch == f.sent.Epoch {
		m.row = nil
	}
}

// leased says that somebody is sending it.
func (r *row) leased(clock int) bool {
	return r.Status == model.Ready && r.Instance != "" && r.Due > clock-sendTail
}
