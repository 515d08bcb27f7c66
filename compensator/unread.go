package compensator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/transmsg/transmsg/model"
)

const (
	// unreadWait is the least time that a row waits whose content could not be read: each
	// try takes storeTimeout.
	unreadWait = time.Minute
	// unreadLook is how many rows are looked at to find it: it is one of the first due.
	unreadLook = 10
)

// unread remembers rows whose content could not be read though they were claimed alone, until
// they are set apart. Their transaction may hold its locks for a while after it was given up,
// and then other rows are claimed in their place. One goroutine at a time uses it.
type unread struct {
	rows map[string]unreadRow // by id
}

type unreadRow struct {
	service string
	cause   error
	since   time.Time
}

// note remembers the row that a claim failed at, if it was alone.
func (u *unread) note(service string, err error) {
	var e *model.UnreadError
	if !errors.As(err, &e) || e.Rows != 1 {
		return
	}
	if u.rows == nil {
		u.rows = map[string]unreadRow{}
	}
	u.rows[e.ID] = unreadRow{service: service, cause: err, since: time.Now()}
}

// of reports whether there is one of the service, and forgets those that were not found.
func (u *unread) of(service string) (found bool) {
	for id, row := range u.rows {
		if time.Since(row.since) > unreadWait {
			delete(u.rows, id) // it went another way
			continue
		}
		found = found || row.service == service
	}
	return found
}

// setApart claims the rows that could not be read, without their content, and puts them off:
// those behind them go on. They are tried again for as long as it takes.
func (r *run) setApart(hard context.Context, ask model.Claim) error {
	unread := &r.c.unread
	if !unread.of(ask.Service) {
		return nil
	}
	ask.MaxRows, ask.MaxBytes, ask.Bare, ask.After, ask.LoneFrom = unreadLook, 1<<62, true, model.Cursor{}, 0
	call, cancel := context.WithTimeout(hard, storeTimeout)
	defer cancel()
	claimed, err := r.c.cfg.Store.Claim(call, ask)
	if err != nil {
		r.c.cfg.observer.StoreError("claim", err)
		return fmt.Errorf("claim rows of %s: %w", ask.Service, err)
	}
	for i := range claimed.Rows {
		row := &claimed.Rows[i]
		u, ok := unread.rows[row.ID]
		if !ok {
			r.handBack(claimed.Rows[i : i+1])
			continue
		}
		delete(unread.rows, row.ID)
		o := model.Outcome{
			Kind: model.Unknown, Code: model.CodeUnread,
			Text: model.CleanText(fmt.Sprintf("its %d bytes cannot be read from the database: %v", row.Size, u.cause)),
		}
		if row.LastCode != model.CodeUnread {
			r.raiseRow(model.AlertUnread, row, o)
		}
		s := r.newSend(row)
		s.result.Delay = unreadWait
		s.settle(o)
	}
	return nil
}
