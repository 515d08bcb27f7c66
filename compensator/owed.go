package compensator

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/transmsg/transmsg/model"
)

const (
	// alertLease is how long claimed DEAD rows are this process's; after it another one
	// raises their alert.
	alertLease = 30 * time.Second
	// alertBudget is how long after the claim alerts are still begun: a call and its mark
	// take up to 15 s.
	alertBudget = alertLease - alertTimeout - storeTimeout
	// owedRows bounds the rows of one claim, owedMost those of one pass.
	owedRows = 1000
	owedMost = 20_000
	// alertedFor is when a row whose alert was accepted is due for the next: never.
	alertedFor = 100 * 365 * 24 * time.Hour
)

// owed is a group of DEAD rows whose alert nobody has accepted yet.
type owed struct {
	alert Alert
	keys  []model.RowKey
}

// owedAlerts raises the alerts of DEAD rows. Which are owed is in the table, so nothing is
// lost when a process is killed: claim, send, mark, in this order.
//
//	killed after the claim    due again when the lease ends
//	killed after the send     the same: the alert is sent twice
//	killed after the mark     done
//
// Rows of a group whose window is open are not kept in memory: they are made due for the
// window's end.
type owedAlerts struct {
	cfg     *Config
	log     *slog.Logger
	sink    *sink
	windows *windows
	failed  map[group]int // failures in a row, to send what failed last
}

// pass does all that can be done now.
func (o *owedAlerts) pass(hard context.Context, held func() bool) {
	if o.sink.rest() > 0 {
		return // the rows stay due
	}
	since := time.Now() // before the claim: its lease began later
	down := false
	for _, g := range o.inOrder(o.claim(hard, held)) {
		key := groupOf(&g.alert)
		closed, wait := o.windows.closed(key)
		switch {
		case !closed:
			o.mark(hard, g, wait)
		case down || !held() || time.Since(since) > alertBudget:
			o.mark(hard, g, max(o.sink.rest(), time.Millisecond))
		case o.sink.send(hard, g.alert) != nil:
			down = true
			o.failed[key]++
			o.mark(hard, g, max(o.sink.rest(), time.Millisecond))
		default:
			delete(o.failed, key)
			o.windows.open(key, o.cfg.AlertWindow)
			o.mark(hard, g, alertedFor)
		}
	}
}

// claim takes what is due, by group. It stops where the next claim might outlast the
// first one's lease.
func (o *owedAlerts) claim(hard context.Context, held func() bool) map[group]*owed {
	groups := map[group]*owed{}
	since := time.Now()
	for n := 0; n < owedMost && held() && time.Since(since) < time.Second; {
		call, cancel := context.WithTimeout(hard, storeTimeout)
		rows, err := o.cfg.Store.ClaimDead(call, model.DeadClaim{
			Owner: o.cfg.Owner, Lease: alertLease, MaxRows: owedRows,
		})
		cancel()
		if err != nil {
			o.cfg.Observer.StoreError("claim-dead", err)
			if hard.Err() == nil {
				o.log.Warn("claim rows whose alert is owed", "error", err)
			}
			break
		}
		for i := range rows {
			o.add(groups, &rows[i])
		}
		if n += len(rows); len(rows) < owedRows {
			break
		}
	}
	return groups
}

// add puts a row into its group.
func (o *owedAlerts) add(groups map[group]*owed, row *model.TransMessage) {
	at := time.UnixMilli(row.UpdatedAt)
	a := Alert{
		Kind: model.AlertDead, Service: row.Service, Exchange: row.Exchange, RoutingKey: row.RoutingKey,
		Code: row.LastCode, Text: row.LastError, Count: 1, First: at, Last: at,
		Sample:   model.AlertSample{ID: row.ID, Key: row.MessageKey, Attempts: row.Attempts},
		Instance: o.cfg.Owner,
	}
	g := groups[groupOf(&a)]
	if g == nil {
		a.Command = model.AlertCommand(&a)
		g = &owed{alert: a}
		groups[groupOf(&a)] = g
	} else {
		merge(&g.alert, &a)
	}
	g.keys = append(g.keys, model.RowKey{ID: row.ID, Epoch: row.Epoch})
}

// merge adds what b says to a; the sample stays.
func merge(a, b *Alert) {
	a.Count += b.Count
	if b.First.Before(a.First) {
		a.First = b.First
	}
	if b.Last.After(a.Last) {
		a.Last = b.Last
	}
}

// mark makes the rows of a group due for an alert after so long. Where that cannot be
// written their lease does it.
func (o *owedAlerts) mark(hard context.Context, g *owed, next time.Duration) {
	call, cancel := context.WithTimeout(hard, storeTimeout)
	defer cancel()
	if _, err := o.cfg.Store.MarkAlerted(call, g.keys, next); err != nil {
		o.cfg.Observer.StoreError("mark-alerted", err)
		o.log.Warn("mark rows alerted", "rows", len(g.keys), "error", err)
	}
}

// inOrder puts the groups whose alert failed last behind the others, so that one alert
// that is never accepted holds no other up, and the oldest first.
func (o *owedAlerts) inOrder(groups map[group]*owed) []*owed {
	if len(groups) == 0 {
		clear(o.failed)
	}
	return slices.SortedFunc(maps.Values(groups), func(a, b *owed) int {
		return cmp.Or(
			cmp.Compare(o.failed[groupOf(&a.alert)], o.failed[groupOf(&b.alert)]),
			a.alert.First.Compare(b.alert.First),
			cmp.Compare(a.alert.Sample.ID, b.alert.Sample.ID),
		)
	})
}
