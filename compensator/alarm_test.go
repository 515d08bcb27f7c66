package compensator_test

import (
	"testing"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/dbtest"
)

// An alarm that is longer than several leases, with three replicas: what the first one has
// out stays its own, and nothing is delivered twice.
func TestE12_AnAlarmLongerThanALeaseRepeatsNothing(t *testing.T) {
	t.Parallel()
	node := amqptest.StartNode(t, amqptest.Options{})
	r := newRig(t, "mysql", dbtest.MySQL(t), node.URL())
	r.must(node.MemoryAlarm(true))
	ids := r.put(200, "orders", "ex", "k")
	for range 3 {
		cfg := r.config()
		cfg.Sender = r.sender("", func(c *confirms.Config) { c.ConfirmTimeout = time.Second })
		cfg.Lease = 5 * time.Second
		start(t, cfg)
	}
	started := time.Now()
	eventually(t, "three leases are over in the alarm", func() bool { return time.Since(started) > 15*time.Second })
	r.must(node.MemoryAlarm(false))
	r.untilRows(0, 0)
	r.deliveredOnce("q1", ids)
}
