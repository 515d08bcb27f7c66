package compensator

import (
	"time"

	"github.com/transmsg/transmsg/model"
)

// suspecting is a Sender that says why messages which must go alone wait; confirms' does.
type suspecting interface {
	SuspectsError() error
}

// suspectsWait tells, once a minute, of a connection for suspects that cannot be opened: the
// broker may allow this user one connection a process. Rows that must go alone then stay
// READY, uncharged, whatever they would end as. It is called at each firing of the schedule.
func (c *Compensator) suspectsWait() {
	s, ok := c.cfg.Sender.(suspecting)
	if !ok || time.Since(c.suspectsTold) < upkeepEvery {
		return
	}
	err := s.SuspectsError()
	if err == nil {
		return
	}
	now := time.Now()
	c.suspectsTold = now
	c.raise(Alert{
		Kind: model.AlertSuspects, Text: model.CleanText("no second connection for messages that must be sent alone, " +
			"they stay READY: " + err.Error()),
		Count: 1, First: now, Last: now,
	})
}
