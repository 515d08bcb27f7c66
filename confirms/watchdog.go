package confirms

import (
	"fmt"
	"time"
)

const (
	watchTick = 250 * time.Millisecond
	// quietLimit and probeAt count ticks in which nothing was read. Ticks, not times: a
	// process that was stopped for a while must not take its own sleep for the broker's.
	quietLimit = int(5 * time.Second / watchTick)
	probeAt    = int(2 * time.Second / watchTick)
	// callTimeout bounds a call to the broker (open a channel, ask for an exchange).
	callTimeout = 10 * time.Second
)

// watchdog gives the connection up when sends wait and nothing is read, long before TCP
// or the heartbeat would. An alive broker that is only slow to confirm answers the probe,
// and then the confirm timeout decides. A blocked connection is never given up for its
// silence: the broker does not read it.
func (se *session) watchdog() {
	ticker := time.NewTicker(watchTick)
	defer ticker.Stop()
	quiet, idle, reads := 0, 0, se.wire.Reads()
	for {
		select {
		case <-se.over:
			return
		case <-ticker.C:
		}
		if what, ok := se.overdueCall(); ok {
			se.kill(fmt.Sprintf("%s: no answer within %s", what, callTimeout))
			return
		}
		if idle++; !se.idle() {
			idle = 0
		} else if idle >= isolatedIdle {
			close(se.unused)
			return
		}
		now := se.wire.Reads()
		if now != reads || se.inFlight.Load() == 0 || se.wire.Patient() {
			quiet, reads = 0, now
			continue
		}
		quiet++
		switch {
		case quiet == probeAt:
			se.exchanges.probe()
		case quiet >= quietLimit:
			se.kill(fmt.Sprintf("nothing was read for %s while sends wait", time.Duration(quietLimit)*watchTick))
			return
		}
	}
}

// guard notes a call into the library that waits for the broker. The library has no
// deadline for it; the watchdog ends the connection, and with it the call.
func (se *session) guard(what string) (end func()) {
	se.mu.Lock()
	defer se.mu.Unlock()
	se.callSeq++
	id := se.callSeq
	se.calls[id] = guardedCall{what: what, since: se.clock.now()}
	return func() {
		se.mu.Lock()
		defer se.mu.Unlock()
		delete(se.calls, id)
	}
}

func (se *session) overdueCall() (what string, overdue bool) {
	se.mu.Lock()
	defer se.mu.Unlock()
	for _, c := range se.calls {
		if se.clock.now()-c.since > callTimeout {
			return c.what, true
		}
	}
	return "", false
}
