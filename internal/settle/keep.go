package settle

import (
	"context"
	"time"

	"github.com/transmsg/transmsg/model"
)

// OpExtend is the write of a [Keeper], as errors name it.
const OpExtend = "extend"

// Keeper keeps the rows whose send is out on a connection that the broker blocks: no confirm
// can come meanwhile, and once their leases have ended each other process would send them too,
// and the broker would take all of them when the alarm ends. Every field is required.
type Keeper struct {
	// Rows returns the rows that are held so now.
	Rows func() []*model.TransMessage
	// Extend gives them a new lease; see the store.
	Extend func(ctx context.Context, held []model.Held, lease time.Duration) (int, error)
	// Lease is how long the new leases are; Every is the time between two looks, which must be
	// shorter than what is left of a lease when a send begins.
	Lease, Every time.Duration
	// OnError is told of a failed write, which is tried again at the next look.
	OnError func(op string, err error)
}

// Run looks until ctx ends. A write takes at most DefaultTimeout.
func (k Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(k.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			k.look(ctx)
		}
	}
}

func (k Keeper) look(ctx context.Context) {
	rows := k.Rows()
	if len(rows) == 0 {
		return
	}
	held := make([]model.Held, len(rows))
	for i, r := range rows {
		held[i] = model.Held{ID: r.ID, Epoch: r.Epoch, Version: r.Version}
	}
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	if _, err := k.Extend(ctx, held, k.Lease); err != nil && ctx.Err() == nil {
		k.OnError(OpExtend, err)
	}
}
