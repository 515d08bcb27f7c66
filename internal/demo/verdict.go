package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/transmsg/transmsg/model"
)

// Result is what `transmsg-lab demo --json` prints.
type Result struct {
	Published         int      `json:"published"`
	InTransactions    int      `json:"in_transactions"`
	RolledBack        int      `json:"rolled_back"`
	Delivered         int      `json:"delivered"`
	ReturnedDelivered int      `json:"returned_then_delivered"`
	Repaired          int      `json:"repaired"`
	Dead              int      `json:"dead"`
	Alerts            int      `json:"alerts"`
	Repeats           int      `json:"repeats"`
	Lost              int      `json:"lost"`
	Problems          []string `json:"problems"`
	Seed              uint64   `json:"seed"`
	Seconds           float64  `json:"seconds"`
}

// finish holds what was published against what arrived, prints the table and fails unless
// everything is as promised.
func (d *demo) finish(ctx context.Context) (*Result, error) {
	res, err := d.count(ctx)
	if err != nil {
		return nil, err
	}
	d.say("\nCounted on the consumer, by distinct message id:")
	for _, row := range [...]struct {
		name string
		n    int
		note string
	}{
		{"published", res.Published, "Publish or the commit returned nil"},
		{"rolled back", res.RolledBack, "never sent"},
		{"delivered", res.Delivered, ""},
		{"returned, then delivered", res.ReturnedDelivered, "after the key was bound"},
		{"repaired after the cut", res.Repaired, "unknown or deferred at first"},
		{"DEAD, with an alert", res.Dead, "kept for repair"},
		{"repeats", res.Repeats, "same id, for the consumer to drop"},
		{"lost", res.Lost, ""},
	} {
		d.say("%s", strings.TrimRight(fmt.Sprintf("  %-26s %7d  %s", row.name, row.n, row.note), " "))
	}
	if d.cfg.Keep {
		d.say("kept: %s, exchange and queue %s", d.dir, d.broker.exchange)
	}
	for _, p := range res.Problems {
		d.say("PROBLEM: %s", p)
	}
	d.say("%.1f s\nlost %d", res.Seconds, res.Lost)
	if len(res.Problems) > 0 {
		return &res, fmt.Errorf("not as promised: %s", strings.Join(res.Problems, "; "))
	}
	return &res, nil
}

// facts are what is known to be true and what the consumer saw.
type facts struct {
	published, rolledBack, unbound, dead map[string]bool
	received                             map[string]int // deliveries by message id
	alerts, orders, transacted           int
	ready                                int64
	repaired, unknown                    int
}

// count gathers the facts and judges them.
func (d *demo) count(ctx context.Context) (Result, error) {
	f := facts{
		published: d.published, rolledBack: d.rolledBack, unbound: d.unboundIDs, dead: map[string]bool{},
		received: d.broker.deliveries(), alerts: d.alerts(), transacted: d.transacted,
		repaired: d.repaired, unknown: d.unknown,
	}
	if err := d.business.QueryRowContext(ctx, "SELECT COUNT(*) FROM orders").Scan(&f.orders); err != nil {
		return Result{}, fmt.Errorf("count the business rows: %w", err)
	}
	var err error
	if f.ready, _, err = d.rows(ctx); err != nil {
		return Result{}, err
	}
	rows, err := d.store.List(ctx, model.Filter{Service: service, Status: model.Dead, Limit: 10_000})
	if err != nil {
		return Result{}, err
	}
	for i := range rows {
		f.dead[rows[i].ID] = true
	}
	res := f.judge()
	res.Seed, res.Seconds = d.cfg.Seed, float64(time.Since(d.begin).Milliseconds())/1000
	return res, nil
}

// judge compares what was promised with what arrived. A message is lost when Publish or
// the commit returned nil and it neither arrived nor is kept DEAD.
func (f *facts) judge() Result {
	res := Result{
		Published: len(f.published), InTransactions: f.transacted, RolledBack: len(f.rolledBack), Repaired: f.repaired,
		Dead: len(f.dead), Alerts: f.alerts, Problems: []string{},
	}
	for id := range f.published {
		switch {
		case f.received[id] > 0:
			res.Delivered++
		case !f.dead[id]:
			res.Lost++
		}
	}
	ghosts, strangers := 0, 0
	for id, n := range f.received {
		res.Repeats += n - 1
		switch {
		case f.rolledBack[id]:
			ghosts++
		case !f.published[id]:
			strangers++
		case f.unbound[id]:
			res.ReturnedDelivered++
		}
	}
	problem := func(bad bool, format string, args ...any) {
		if bad {
			res.Problems = append(res.Problems, fmt.Sprintf(format, args...))
		}
	}
	problem(res.Lost > 0, "%d messages are lost", res.Lost)
	problem(ghosts > 0, "%d messages of rolled back transactions were sent", ghosts)
	problem(strangers > 0, "%d messages arrived that nobody published", strangers)
	problem(f.orders != f.transacted, "%d business rows for %d committed transactions", f.orders, f.transacted)
	problem(f.ready != 0, "%d rows are still READY", f.ready)
	problem(res.ReturnedDelivered != unboundMessages, "%d of %d returned messages were delivered",
		res.ReturnedDelivered, unboundMessages)
	problem(res.Dead != deadMessages || res.Alerts != deadMessages, "%d DEAD and %d alerts, want %d",
		res.Dead, res.Alerts, deadMessages)
	problem(f.unknown == 0, "the cut hit no send: it proves nothing")
	return res
}
