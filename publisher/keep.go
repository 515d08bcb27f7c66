package publisher

import (
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/settle"
	"github.com/transmsg/transmsg/model"
)

// keeper extends the leases of what is out while the broker blocks the connection.
func (p *Publisher) keeper() settle.Keeper {
	return settle.Keeper{
		Rows: p.blockedRows, Extend: p.cfg.Store.Extend,
		Lease: p.cfg.Lease, Every: p.cfg.Sender.ConfirmTimeout() / 3,
		OnError: func(op string, err error) {
			p.log.Warn("extend leases while the broker blocks", "error", err)
			p.cfg.observer.StoreError(op, err)
		},
	}
}

// blockedRows are this publisher's rows on a blocked connection.
func (p *Publisher) blockedRows() (rows []*model.TransMessage) {
	p.cfg.Sender.Held(func(h confirms.Handler) {
		if f, ok := h.(*envelope); ok && f.p == p {
			rows = append(rows, &f.row)
		}
	})
	return rows
}
