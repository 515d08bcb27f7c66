package consumer

import (
	"maps"
	"slices"
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
	// Stuck names what copies need and is missing, full or refused, such as `queue "orders.retry.1s"`. Until it is
	// mended nothing new is taken.
	Stuck []string
	// Steps are the queues of the ladder, where [Config.Management] tells of them; one that is missing is left out. Nil
	// is unknown.
	Steps []StepStats
}

// Stats returns a snapshot of each queue, in the order of the config.
func (c *Consumer) Stats() []Stats {
	all := make([]Stats, len(c.queues))
	for i, q := range c.queues {
		all[i] = q.stats.snapshot()
		all[i].Queue, all[i].Held, all[i].Stuck = q.cfg.Name, int(q.live.Load()), q.stuckOn()
		q.mu.Lock()
		all[i].Steps = slices.Clone(q.steps)
		q.mu.Unlock()
	}
	return all
}

// stuckOn names the targets of copies whose gates are shut.
func (q *queue) stuckOn() (targets []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, target := range slices.Sorted(maps.Keys(q.copies)) {
		if q.copies[target].shut {
			targets = append(targets, target)
		}
	}
	return targets
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
