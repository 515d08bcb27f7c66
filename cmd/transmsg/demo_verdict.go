package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/transmsg/transmsg/model"
)

// demoResult is the documented object of demo --json.
type demoResult struct {
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
func (d *demo) finish(ctx context.Context) error {
	res, err := d.count(ctx)
	if err != nil {
		return err
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
	if d.options.keep {
		d.say("kept: %s, exchange and queue %s", d.dir, d.broker.exchange)
	}
	for _, p := range res.Problems {
		d.say("PROBLEM: %s", p)
	}
	d.say("%.1f s\nlost %d", res.Seconds, res.Lost)
	if d.app.jsonOut {
		if err := printJSON(d.app.stdout, res); err != nil {
			return err
		}
	}
	if len(res.Problems) > 0 {
		return fmt.Errorf("not as promised: %s", strings.Join(res.Problems, "; "))
	}
	return nil
}

// count waits until nothing is under way and compares.
func (d *demo) count(ctx context.Context) (demoResult, error) {
	var orders int
	if err := d.business.QueryRowContext(ctx, "SELECT COUNT(*) FROM orders").Scan(&orders); err != nil {
		return demoResult{}, fmt.Errorf("count the business rows: %w", err)
	}
	ready, dead, err := d.rows(ctx)
	if err != nil {
		return demoResult{}, err
	}
	rows, err := d.store.List(ctx, model.Filter{Service: demoService, Status: model.Dead, Limit: maxLimit})
	if err != nil {
		return demoResult{}, err
	}
	deadIDs := map[string]bool{}
	for i := range rows {
		deadIDs[rows[i].ID] = true
	}
	distinct, total := d.broker.counts()
	res := demoResult{
		Published: len(d.published), InTransactions: d.transacted, RolledBack: len(d.rolledBack),
		Delivered: d.broker.has(d.published), ReturnedDelivered: d.broker.has(d.unboundIDs), Repaired: d.repaired,
		Dead: int(dead), Alerts: d.alerts(), Repeats: total - distinct, Problems: []string{},
		Seed: d.options.seed, Seconds: float64(time.Since(d.begin).Milliseconds()) / 1000,
	}
	for id := range d.published {
		if !deadIDs[id] && d.broker.has(map[string]bool{id: true}) == 0 {
			res.Lost++
		}
	}
	problem := func(bad bool, format string, args ...any) {
		if bad {
			res.Problems = append(res.Problems, fmt.Sprintf(format, args...))
		}
	}
	ghosts := d.broker.has(d.rolledBack)
	problem(res.Lost > 0, "%d messages are lost", res.Lost)
	problem(ghosts > 0, "%d messages of rolled back transactions were sent", ghosts)
	problem(distinct != res.Delivered+ghosts, "%d messages arrived that nobody published", distinct-res.Delivered-ghosts)
	problem(orders != d.transacted, "%d business rows for %d committed transactions", orders, d.transacted)
	problem(ready != 0, "%d rows are still READY", ready)
	problem(res.ReturnedDelivered != demoUnbound, "%d of %d returned messages were delivered", res.ReturnedDelivered, demoUnbound)
	problem(res.Dead != demoDead || res.Alerts != demoDead, "%d DEAD and %d alerts, want %d", res.Dead, res.Alerts, demoDead)
	problem(d.brokenSends == 0, "the cut hit no send: it proves nothing")
	return res, nil
}
