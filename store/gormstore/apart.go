package gormstore

import (
	"context"
	"sync"
	"time"
)

const (
	// apartFan is the number of parts into which units are split that met a lock: each
	// further split costs a lock timeout, each part a statement.
	apartFan = 16
	// apartPause is the try of pause between two tries on a lock, about 50 ms.
	apartPause = 5
)

// apart stores the units that met a lock, such as an id that a transaction open elsewhere
// has inserted and not yet committed, beside the queue of inserts: only the caller with
// that id waits for it. At most half of the connections are used for that. The number of
// goroutines is bounded by the callers, who wait for their units.
type apart struct {
	slots chan struct{}
	wg    sync.WaitGroup
}

func newApart(conns int) *apart { return &apart{slots: make(chan struct{}, max(1, conns/2))} }

// setApart hands over units whose statement was refused by cause, a lock that was not free
// in time. They keep the deadline of ctx.
func (s *Store) setApart(ctx context.Context, units []*unit, cause error) {
	deadline, _ := ctx.Deadline() // every INSERT has one
	part := len(units)
	if part > 1 && !s.tableLocked(ctx) {
		part = (part + apartFan - 1) / apartFan
	}
	for len(units) > 0 {
		// A copy: the queue uses the slice again.
		group := append([]*unit(nil), units[:min(part, len(units))]...)
		units = units[len(group):]
		s.apart.wg.Go(func() { s.storeApart(deadline, group, cause) })
	}
}

// storeApart tries the units once; those that meet a lock again are set apart again.
func (s *Store) storeApart(deadline time.Time, units []*unit, cause error) {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	if pause(ctx, apartPause) != nil {
		s.fail(units, cause)
		return
	}
	select {
	case s.apart.slots <- struct{}{}:
	case <-ctx.Done():
		s.fail(units, cause)
		return
	}
	defer func() { <-s.apart.slots }()
	s.insertUnits(ctx, units)
}

// tableLocked reports whether statements wait for the whole table: then it is no use to
// split them. The DELETE finds nothing, and wants the same lock on the table as an INSERT.
func (s *Store) tableLocked(ctx context.Context) bool {
	_, err := s.db.ExecContext(ctx, "DELETE FROM "+s.sql.table+" WHERE 1 = 0")
	return s.d.classify(err) == classBusy
}
