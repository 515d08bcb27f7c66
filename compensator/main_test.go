package compensator_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// A machine in a zone with daylight saving: schedules must not notice.
	if zone, err := time.LoadLocation("America/New_York"); err == nil {
		time.Local = zone
	}
	goleak.VerifyTestMain(m)
}
