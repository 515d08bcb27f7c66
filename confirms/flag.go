package confirms

import (
	"sync"
	"sync/atomic"
)

// flag is a switch that goroutines can wait for in a select. It starts off.
type flag struct {
	mu      sync.Mutex
	isOn    atomic.Bool   // written with mu held
	on, off chan struct{} // the one of the present state is closed
}

func newFlag() *flag {
	t := &flag{on: make(chan struct{}), off: make(chan struct{})}
	close(t.off)
	return t
}

// set reports whether it changed anything.
func (t *flag) set(on bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isOn.Load() == on {
		return false
	}
	t.isOn.Store(on)
	if on {
		close(t.on)
		t.off = make(chan struct{})
	} else {
		close(t.off)
		t.on = make(chan struct{})
	}
	return true
}

func (t *flag) get() bool { return t.isOn.Load() }

// whenOn returns a channel that is closed once the switch is on.
func (t *flag) whenOn() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.on
}

// whenOff returns a channel that is closed once the switch is off.
func (t *flag) whenOff() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.off
}
