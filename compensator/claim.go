package compensator

import (
	"context"
	"fmt"
	"time"

	"github.com/transmsg/transmsg/model"
)

const (
	// claimFast is the time below which claims grow, claimSlow the one above which they
	// shrink. A claim that ends with an error shrinks them to one row.
	claimFast = storeTimeout / 8
	claimSlow = storeTimeout / 2
	// behindLeast and behindMost bound the time after which a drain looks for rows behind
	// its cursor; in between it is two intervals.
	behindLeast = 500 * time.Millisecond
	behindMost  = 10 * time.Second
)

// place is how far a drain has come in one service.
type place struct {
	at    model.Cursor
	since time.Time // when it began at the first due row
	lone  bool      // the next row must be claimed alone
}

// appetite is how much of BatchRows and BatchBytes a claim asks for: on a link that is too
// slow for a whole batch within storeTimeout the same claim would fail for ever. One
// goroutine at a time uses it.
type appetite struct {
	full  Config
	share float64 // 0 < share <= 1
}

func (a *appetite) rows(most int) int {
	return max(1, min(most, int(a.share*float64(a.full.BatchRows))))
}

func (a *appetite) bytes() int64 { return max(1, int64(a.share*float64(a.full.BatchBytes))) }

// took learns from the time of a claim that succeeded.
func (a *appetite) took(d time.Duration) {
	switch {
	case d < claimFast:
		a.share = min(1, 2*a.share)
	case d > claimSlow:
		a.share = max(a.smallest(), a.share/2)
	}
}

func (a *appetite) failed() { a.share = a.smallest() }

func (a *appetite) smallest() float64 { return 1 / float64(a.full.BatchRows) }

// claim leases the next rows of a service and moves its cursor. It begins at the first due
// row again every few intervals: rows that were committed or became due behind the cursor
// are not to wait for the end of a long drain.
func (r *run) claim(hard context.Context, service string, limit int) (model.Claimed, error) {
	cfg, appetite := &r.c.cfg, &r.c.appetite
	from, going := r.cursors[service]
	if !going || time.Since(from.since) > cfg.behind() {
		from = place{since: time.Now()}
	}
	ask := model.Claim{
		Service: service, Instance: cfg.Instance, Lease: cfg.Lease,
		MaxRows: appetite.rows(limit), MaxBytes: appetite.bytes(), After: from.at, LoneFrom: crashLoopClaims,
	}
	if err := r.setApart(hard, ask); err != nil {
		return model.Claimed{}, err
	}
	call, cancel := context.WithTimeout(hard, storeTimeout)
	defer cancel()
	begin := time.Now()
	claimed, err := cfg.Store.Claim(call, ask)
	if err != nil {
		cfg.observer.StoreError("claim", err)
		appetite.failed()
		r.c.unread.note(service, err)
		return model.Claimed{}, fmt.Errorf("claim rows of %s: %w", service, err)
	}
	if len(claimed.Rows) > 0 { // one that found none says nothing
		appetite.took(time.Since(begin))
	}
	if claimed.More {
		r.cursors[service] = place{claimed.Last, from.since, claimed.LoneNext}
	} else {
		delete(r.cursors, service)
	}
	r.count(func(f *RunStats) { f.Claims++; f.Rows += len(claimed.Rows) })
	return claimed, nil
}

// behind is the time after which a drain looks behind its cursor.
func (c *Config) behind() time.Duration { return min(max(2*c.Interval, behindLeast), behindMost) }
