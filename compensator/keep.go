package compensator

import (
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/settle"
	"github.com/transmsg/transmsg/model"
)

// keeper extends the leases of what is out while the broker blocks the connection.
func (c *Compensator) keeper() settle.Keeper {
	return settle.Keeper{
		Rows: c.held, Extend: c.cfg.Store.Extend,
		Lease: c.cfg.Lease, Every: c.cfg.Sender.ConfirmTimeout() / 3,
		OnError: func(op string, err error) {
			c.log.Warn("extend leases while the broker blocks", "error", err)
			c.cfg.observer.StoreError(op, err)
		},
	}
}

// held are this compensator's rows on a blocked connection.
func (c *Compensator) held() (rows []*model.TransMessage) {
	c.cfg.Sender.Held(func(h confirms.Handler) {
		if s, ok := h.(*send); ok && s.run.c == c {
			rows = append(rows, s.result.Row)
		}
	})
	return rows
}
