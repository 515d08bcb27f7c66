package compensator

import "time"

// outageLeast is how long the sender must have been without a healthy channel for what
// follows to begin slowly. A shorter gap is a reconnect.
const outageLeast = 5 * time.Second

// outage notices the end of a long time without a healthy channel. It is looked at by one
// goroutine at a time, the run's; with a long interval between runs an outage is as long
// as it was seen.
type outage struct {
	since time.Time // first seen not ready; zero: ready
}

// see takes one look and reports whether a long outage ended with it.
func (o *outage) see(ready bool) (ended bool) {
	switch {
	case !ready && o.since.IsZero():
		o.since = time.Now()
	case ready && !o.since.IsZero():
		ended = time.Since(o.since) > outageLeast
		o.since = time.Time{}
	}
	return ended
}

// ready reports whether the sender has a healthy channel, and begins a slow start when
// it had none for long: a broker that has just come back has queues to sync, consumers
// to take back and every other client at its door.
func (c *Compensator) ready() bool {
	ready := c.cfg.Sender.Ready()
	if c.outage.see(ready) {
		c.pace.slowStart()
	}
	return ready
}
