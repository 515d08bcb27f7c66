package confirms

// conditions are what is known of the broker and of this sender at one moment.
type conditions struct {
	live         bool // there is a publishing connection, with at least one channel so far
	channels     bool // one of them is open now
	blocked      bool // the broker blocks the connection
	loginRefused bool // the broker refuses the login on the open connection
	stalled      bool // a whole channel has confirms overdue
	closing      bool // Close was called

	quarantineBlocked bool // the broker blocks the connection for suspects; false without one
}

// gates says what may be done under the conditions.
type gates struct {
	publish    bool // what is queued may be sent
	quarantine bool // so may what is queued to go alone
	ready      bool // new work is taken on
}

// gates is the one place that decides what stops sending. While the sender closes, what it
// has accepted still goes out. The quarantine's gate needs no connection of its own to be
// open: suspects wait for it (see isolate), but only where publishing works.
func (c conditions) gates() gates {
	open := c.live && !c.blocked && !c.loginRefused
	return gates{
		publish:    open,
		quarantine: open && !c.quarantineBlocked,
		ready:      open && c.channels && !c.stalled && !c.closing,
	}
}

// whyNotSent is the text of a deferred outcome: the first of the causes that holds.
func (c conditions) whyNotSent(alone bool) string {
	switch {
	case c.closing:
		return "the sender is closed"
	case c.blocked, alone && c.quarantineBlocked:
		return "the broker blocks the connection"
	case c.loginRefused:
		return "the broker refuses the login"
	case !c.live:
		return "no connection to the broker"
	}
	return "too late to send within the time given"
}
