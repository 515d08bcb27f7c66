package compensator_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// A machine in a zone with daylight saving: schedules must not notice.
	if zone, err := time.LoadLocation("America/New_York"); err == nil {
		time.Local = zone
	}
	logging.Disable() // go-redis writes to standard error what our tests provoke
	goleak.VerifyTestMain(m)
}
