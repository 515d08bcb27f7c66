package confirms

import (
	"testing"
	"time"
)

// Room is given before readiness is told: whoever has waited for it finds room.
func TestRoomIsThereBeforeReadiness(t *testing.T) {
	t.Parallel()
	s := &Sender{
		room: room{maxN: 1, maxBytes: 1}, ready: newToggle(),
		publish: &role{gate: newToggle()}, quarantine: &role{gate: newToggle()},
	}
	s.state.session = &session{live: true, lanes: 1}
	s.ready.mu.Lock() // readiness waits here
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.derive()
	}()
	for end := time.Now().Add(5 * time.Second); !s.room.try(1, 1); {
		if time.Now().After(end) {
			t.Error("no room before readiness")
			break
		}
		<-time.After(time.Millisecond)
	}
	s.ready.mu.Unlock()
	<-done
	if !s.ready.get() {
		t.Error("not ready")
	}
}
