package consumer

import (
	"sync/atomic"
)

// Stats is a snapshot of one queue's consumer. Counters only grow.
type Stats struct {
	Queue string
	// Delivered counts deliveries; each ends as one of the next seven.
	Delivered                                                           uint64
	Handled, Skipped, Retried, DeadLettered, GivenBack, Lost, Recounted uint64
	// Calls by their answer.
	OK, Failed, Permanent, Unavailable, Busy, Panics, Deadlines uint64
	// Copies were confirmed, CopiesFailed tries were not.
	Copies, CopiesFailed uint64
	// Held are deliveries without an end, InFlight handler calls.
	Held, InFlight int
}

// Stats returns a snapshot of each queue, in the order of the config.
func (c *Consumer) Stats() []Stats {
	all := make([]Stats, len(c.queues))
	for i, q := range c.queues {
		all[i] = q.stats.snapshot()
		all[i].Queue, all[i].Held = q.cfg.Name, int(q.live.Load())
	}
	return all
}

type counts struct {
	delivered, copies, copiesFailed                             atomic.Uint64
	results                                                     [Recounted + 1]atomic.Uint64
	ok, failed, permanent, unavailable, busy, panics, deadlines atomic.Uint64
	inFlight                                                    atomic.Int64
}

func (c *counts) add(r Result) { c.results[r].Add(1) }

func (c *counts) answer(word string) {
	switch word {
	case "ok":
		c.ok.Add(1)
	case "permanent":
		c.permanent.Add(1)
	case "unavailable":
		c.unavailable.Add(1)
	case "busy":
		c.busy.Add(1)
	case "panic":
		c.panics.Add(1)
	case "deadline":
		c.deadlines.Add(1)
	case "failed":
		c.failed.Add(1)
	}
}

func (c *counts) snapshot() Stats {
	return Stats{
		Delivered: c.delivered.Load(),
		Handled:   c.results[Handled].Load(), Skipped: c.results[SkippedDone].Load(),
		Retried: c.results[Retried].Load(), DeadLettered: c.results[DeadLettered].Load(),
		GivenBack: c.results[GivenBack].Load(), Lost: c.results[Lost].Load(), Recounted: c.results[Recounted].Load(),
		OK: c.ok.Load(), Failed: c.failed.Load(), Permanent: c.permanent.Load(), Unavailable: c.unavailable.Load(),
		Busy: c.busy.Load(), Panics: c.panics.Load(), Deadlines: c.deadlines.Load(),
		Copies: c.copies.Load(), CopiesFailed: c.copiesFailed.Load(), InFlight: int(c.inFlight.Load()),
	}
}
