package confirms

import (
	"testing"
	"time"
)

// Room is given before readiness is told: whoever has waited for it finds room.
func TestRoomIsThereBeforeReadiness(t *testing.T) {
	t.Parallel()
	s := &Sender{
		reserved: reservations{maxN: 1, maxBytes: 1}, ready: newFlag(),
		publish: &role{gate: newFlag()}, quarantine: &role{gate: newFlag()},
	}
	s.state.session = &session{live: true, channels: 1}
	s.ready.mu.Lock() // readiness waits here
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.derive()
	}()
	for end := time.Now().Add(5 * time.Second); !s.reserved.try(1, 1); {
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
