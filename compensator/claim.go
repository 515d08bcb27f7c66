package compensator

import (
	"context"
	"errors"
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
	// unreadWait is the least time that a row waits whose content could not be read: each
	// try takes storeTimeout, twice where it came with others.
	unreadWait = time.Minute
)

// place is how far a drain has come in one service.
type place struct {
	at    model.Cursor
	since time.Time // when it began at the first due row
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

// least reports whether there is nothing to shrink: a claim asks for one row.
func (a *appetite) least() bool { return a.rows(a.full.BatchRows) == 1 }

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
		Service: service, Owner: cfg.Owner, Lease: cfg.Lease,
		MaxRows: appetite.rows(limit), MaxBytes: appetite.bytes(), After: from.at,
	}
	call, cancel := context.WithTimeout(hard, storeTimeout)
	defer cancel()
	begin := time.Now()
	claimed, err := cfg.Store.Claim(call, ask)
	if err != nil {
		cfg.Observer.StoreError("claim", err)
		single := appetite.least()
		appetite.failed()
		if !single || hard.Err() != nil {
			return model.Claimed{}, fmt.Errorf("claim rows of %s: %w", service, err)
		}
		if claimed, err = r.setApart(hard, ask, err); err != nil {
			return model.Claimed{}, err
		}
	} else if len(claimed.Rows) > 0 { // one that found none says nothing
		appetite.took(time.Since(begin))
	}
	if claimed.More {
		r.cursors[service] = place{claimed.Last, from.since}
	} else {
		delete(r.cursors, service)
	}
	r.count(func(f *Figures) { f.Claims++; f.Rows += len(claimed.Rows) })
	return claimed, nil
}

// behind is the time after which a drain looks behind its cursor.
func (c *Config) behind() time.Duration { return min(max(2*c.Interval, behindLeast), behindMost) }

// setApart claims the one row that could not be read without its content, and puts it off:
// those behind it go on. It is tried again, after growing waits, for as long as it takes.
func (r *run) setApart(hard context.Context, ask model.Claim, cause error) (model.Claimed, error) {
	ask.MaxRows, ask.Bare = 1, true
	call, cancel := context.WithTimeout(hard, storeTimeout)
	defer cancel()
	claimed, err := r.c.cfg.Store.Claim(call, ask)
	if err != nil {
		r.c.cfg.Observer.StoreError("claim", err)
		return model.Claimed{}, fmt.Errorf("claim rows of %s: %w", ask.Service, errors.Join(cause, err))
	}
	for i := range claimed.Rows {
		row := &claimed.Rows[i]
		o := model.Outcome{
			Kind: model.Unknown, Code: model.CodeUnread,
			Text: model.CleanText(fmt.Sprintf("its %d bytes cannot be read from the database: %v", row.Size, cause)),
		}
		if row.LastCode != model.CodeUnread {
			r.noticeRow(model.AlertUnread, row, o)
		}
		s := r.newSend(row)
		s.result.Delay = unreadWait
		s.settle(o)
	}
	claimed.Rows = nil
	return claimed, nil
}
