package compensator

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
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
	// alertRows bounds the rows of one claim, alertMost those of one pass.
	alertRows = 1000
	alertMost = 20_000
	// toldMost bounds the rows remembered that some sinks were told of and others not.
	toldMost = 100_000
	// alertedFor is when a row whose alert was accepted is due for the next: never.
	alertedFor = 100 * 365 * 24 * time.Hour
)

// rowAlert is one row whose alert some sink has not accepted yet. Of a DEAD one the kind is dead.
type rowAlert struct {
	key   model.AlertKey
	alert Alert
}

// rowAlerts raises the alerts of DEAD rows, and of READY ones that need a person. Which are owed
// is in the table, so nothing is lost when a process is killed: claim, send, mark, in this order.
//
//	killed after the claim    due again when the lease ends
//	killed after the send     the same: the alert is sent twice
//	killed after the mark     done
//
// Each sink is told by itself. A row is done when every sink accepted its alert; which ones
// did is remembered in memory, so after a kill those may be told again. Rows of a group
// whose window is open, or that are owed to a sink that rests, are not kept in memory: they
// are made due for then.
type rowAlerts struct {
	cfg   *Config
	log   *slog.Logger
	sinks []*sink
	told  map[model.AlertKey]partly // only rows that are owed to some sinks
}

// partly is what is remembered of a row that some sinks were told of.
type partly struct {
	sinks []bool
	due   time.Time // when the row is looked at again
}

// pass does all that can be done now.
func (o *rowAlerts) pass(hard context.Context, held func() bool) {
	if !slices.ContainsFunc(o.sinks, func(s *sink) bool { return s.rest() <= 0 }) {
		return // the rows stay due
	}
	since := time.Now() // before the claim: its lease began later
	rows := o.claim(hard, held)
	may := func() bool { return held() && time.Since(since) <= alertBudget }
	waits := make([][]time.Duration, len(o.sinks))
	var all sync.WaitGroup
	for i, s := range o.sinks {
		all.Go(func() { waits[i] = s.tell(hard, may, rows, func(k model.AlertKey) bool { return o.wasTold(k, i) }) })
	}
	all.Wait()
	o.settle(hard, rows, waits)
}

func (o *rowAlerts) wasTold(key model.AlertKey, sink int) bool {
	told := o.told[key].sinks
	return told != nil && told[sink]
}

// settle marks the rows: those that every sink was told of are done, the others are due
// when the first sink that was not may be told.
func (o *rowAlerts) settle(hard context.Context, rows []rowAlert, waits [][]time.Duration) {
	if len(rows) == 0 {
		o.forget()
		return
	}
	due := map[time.Duration][]model.AlertKey{}
	for i, row := range rows {
		next, told := alertedFor, make([]bool, len(o.sinks))
		for s := range o.sinks {
			if told[s] = waits[s][i] == 0; !told[s] {
				next = min(next, waits[s][i])
			}
		}
		due[next] = append(due[next], row.key)
		switch {
		case next == alertedFor:
			delete(o.told, row.key)
		case slices.Contains(told, true) && len(o.told) < toldMost:
			o.told[row.key] = partly{told, time.Now().Add(next)}
		}
	}
	for next, keys := range due {
		o.mark(hard, keys, next)
	}
}

// forget drops rows that are overdue: replayed or discarded meanwhile, or another's.
func (o *rowAlerts) forget() {
	for key, p := range o.told {
		if time.Since(p.due) > 2*alertLease {
			delete(o.told, key)
		}
	}
}

// claim takes what is due. It stops where the next claim might outlast the first one's
// lease.
func (o *rowAlerts) claim(hard context.Context, held func() bool) []rowAlert {
	var out []rowAlert
	since := time.Now()
	for _, take := range o.claims() {
		for len(out) < alertMost && held() && time.Since(since) < time.Second {
			call, cancel := context.WithTimeout(hard, storeTimeout)
			rows, err := take(call, model.DeadClaim{Instance: o.cfg.Instance, Lease: alertLease, MaxRows: alertRows})
			cancel()
			if err != nil && hard.Err() == nil {
				o.log.Warn("claim rows whose alert is owed", "error", err)
			}
			if out = append(out, rows...); len(rows) < alertRows {
				break
			}
		}
	}
	return out
}

// claims are the tables that owe alerts.
func (o *rowAlerts) claims() []func(context.Context, model.DeadClaim) ([]rowAlert, error) {
	if o.cfg.Letters == nil {
		return []func(context.Context, model.DeadClaim) ([]rowAlert, error){o.claimDead, o.claimReady}
	}
	return []func(context.Context, model.DeadClaim) ([]rowAlert, error){o.claimDead, o.claimReady, o.claimLetters}
}

func (o *rowAlerts) claimDead(ctx context.Context, c model.DeadClaim) ([]rowAlert, error) {
	rows, err := o.cfg.Store.ClaimDead(ctx, c)
	if err != nil {
		o.cfg.observer.StoreError("claim-dead", err)
	}
	out := make([]rowAlert, len(rows))
	for i := range rows {
		out[i] = o.alertOf(model.AlertDead, &rows[i], rows[i].UpdatedAt)
	}
	return out, err
}

func (o *rowAlerts) claimReady(ctx context.Context, c model.DeadClaim) ([]rowAlert, error) {
	list, err := o.cfg.Store.ClaimAlerts(ctx, c)
	if err != nil {
		o.cfg.observer.StoreError("claim-alerts", err)
	}
	out := make([]rowAlert, len(list))
	for i := range list {
		out[i] = o.alertOf(list[i].Kind, &list[i].Row, list[i].Since)
	}
	return out, err
}

// owed is the alert of one row that has been in its state since then.
func (o *rowAlerts) alertOf(kind model.AlertKind, row *model.TransMessage, since int64) rowAlert {
	at := time.UnixMilli(since)
	a := Alert{
		Kind: kind, Service: row.Service, Exchange: row.Exchange, RoutingKey: row.RoutingKey,
		Code: row.LastCode, Text: row.LastError, Count: 1, First: at, Last: at,
		Sample:   model.AlertSample{ID: row.ID, Key: row.MessageKey, Attempts: row.Attempts},
		Instance: o.cfg.Instance,
	}
	if kind == model.AlertCrashLoop {
		a.Text = fmt.Sprintf("claimed alone %d times and not settled: it seems to end the "+
			"process that sends it, and goes DEAD unless that stops", row.LoneClaims)
	}
	return rowAlert{key: model.AlertKey{ID: row.ID, Kind: kind, Epoch: row.Epoch}, alert: a}
}

// mark makes rows due for an alert after so long. Where that cannot be written their lease
// does it.
func (o *rowAlerts) mark(hard context.Context, keys []model.AlertKey, next time.Duration) {
	var dead, letters []model.RowKey
	var ready []model.AlertKey
	for _, k := range keys {
		switch k.Kind {
		case model.AlertDead:
			dead = append(dead, model.RowKey{ID: k.ID, Epoch: k.Epoch})
		case model.AlertLetter, model.AlertParked:
			letters = append(letters, model.RowKey{ID: k.ID, Epoch: k.Epoch})
		default:
			ready = append(ready, k)
		}
	}
	call, cancel := context.WithTimeout(hard, storeTimeout)
	defer cancel()
	if len(dead) > 0 {
		_, err := o.cfg.Store.MarkAlerted(call, dead, next)
		o.marked("mark-alerted", len(dead), err)
	}
	if len(ready) > 0 {
		_, err := o.cfg.Store.MarkAlerts(call, ready, next)
		o.marked("mark-alerts", len(ready), err)
	}
	if len(letters) > 0 {
		_, err := o.cfg.Letters.MarkLetters(call, letters, next)
		o.marked("mark-letters", len(letters), err)
	}
}

func (o *rowAlerts) marked(op string, rows int, err error) {
	if err != nil {
		o.cfg.observer.StoreError(op, err)
		o.log.Warn("mark rows alerted", "rows", rows, "error", err)
	}
}

// tell raises the alerts of those rows that the sink was not told of, while may says so. It
// returns for each row after how long it is to be tried again; 0 is never.
func (s *sink) tell(
	hard context.Context, may func() bool, rows []rowAlert, told func(model.AlertKey) bool,
) []time.Duration {
	waits := make([]time.Duration, len(rows))
	var alerts []*Alert
	var groups []group
	var position []int
	for i := range rows {
		if !told(rows[i].key) {
			alerts, groups = append(alerts, &rows[i].alert), append(groups, groupOf(&rows[i].alert))
			position = append(position, i)
		}
	}
	if len(alerts) == 0 {
		s.forget()
	}
	for _, x := range s.inOrder(fold(s.windows.opened(), alerts, groups)) {
		wait := s.tellOne(hard, may, x)
		for _, i := range x.members {
			waits[position[i]] = wait
		}
	}
	return waits
}

// tellOne raises one alert, if it may. It returns after how long its rows are to be tried
// again; 0 is never.
func (s *sink) tellOne(hard context.Context, may func() bool, x *folded) time.Duration {
	if over, wait := s.windows.over(x.group); !over {
		return wait
	}
	if s.rest() > 0 || !may() {
		return max(s.rest(), time.Millisecond)
	}
	if err := s.send(hard, x.alert); err != nil {
		if !throttles(err) {
			s.failedOf(x.group, +1)
		}
		return max(s.rest(), time.Millisecond)
	}
	s.windows.open(x.group, s.window(x.group.kind))
	s.failedOf(x.group, -maxFailed)
	return 0
}

// inOrder puts the groups whose alert failed last behind the others, so that one alert that
// is never accepted holds no other up. New causes go before those that were told of lately,
// then the oldest first.
func (s *sink) inOrder(list []*folded) []*folded {
	slices.SortStableFunc(list, func(a, b *folded) int {
		return cmp.Or(
			cmp.Compare(s.failedOf(a.group, 0), s.failedOf(b.group, 0)),
			s.windows.last(a.group).Compare(s.windows.last(b.group)),
			a.alert.First.Compare(b.alert.First),
			cmp.Compare(a.alert.Sample.ID, b.alert.Sample.ID),
		)
	})
	return list
}
