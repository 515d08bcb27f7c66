package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
)

// Operations is what operators, alerts and retention call of a store.
type Operations interface {
	Select(context.Context, model.Selection) (model.Preview, error)
	Replay(ctx context.Context, a model.OperatorAct, rate float64) (int, error)
	Retry(ctx context.Context, a model.OperatorAct, rate float64) (int, error)
	Discard(context.Context, model.OperatorAct) (int, error)
	Edit(ctx context.Context, id string, e model.Edit) error
	Groups(context.Context, model.Filter) ([]model.Group, error)
	Export(context.Context, model.Selection, func(model.TransMessage) error) error
	Import(ctx context.Context, rows []model.TransMessage, actor string) (int, error)
	ClaimDead(context.Context, model.DeadClaim) ([]model.TransMessage, error)
	MarkAlerted(ctx context.Context, keys []model.RowKey, next time.Duration) (int, error)
	ClaimAlerts(context.Context, model.DeadClaim) ([]model.DueAlert, error)
	MarkAlerts(ctx context.Context, keys []model.AlertKey, next time.Duration) (int, error)
	SweepAlerts(ctx context.Context, limit int) (int, error)
	AddEvent(context.Context, model.Event) error
	PurgeEvents(ctx context.Context, olderThan time.Duration, limit int) (int, error)
	PurgeDead(ctx context.Context, olderThan time.Duration, limit int) (int, error)
}

const (
	actor = "ann"
	never = 100 * 365 * 24 * time.Hour
)

// dead stores n rows and settles them DEAD by a return.
func dead(t *testing.T, s Store, n int, edit ...func(*model.Message)) []model.Draft {
	t.Helper()
	rows := make([]model.Draft, n)
	for i := range rows {
		rows[i] = draft(fmt.Sprintf("dead %d", i), edit...)
	}
	kill(t, s, rows, model.Outcome{Kind: model.Returned, Code: model.CodeNoRoute, Text: "NO_ROUTE"})
	return rows
}

// kill stores rows and settles them DEAD by the outcome.
func kill(t *testing.T, s Store, rows []model.Draft, o model.Outcome) {
	t.Helper()
	insert(t, s, rows...)
	list := make([]model.Settlement, len(rows))
	for i := range rows {
		list[i] = returned(rows[i].TransMessage)
		list[i].Status, list[i].Delay, list[i].Outcome = model.Dead, 0, o
	}
	settle(t, s, list...)
}

func act(f model.Filter, ids ...string) model.OperatorAct {
	return model.OperatorAct{Selection: model.Selection{IDs: ids, Filter: f}, Actor: actor, Reason: "INC-7"}
}

func allDead() model.Filter { return model.Filter{Status: model.Dead} }

func replay(t *testing.T, s Store, a model.OperatorAct, rate float64, want int) {
	t.Helper()
	if n, err := s.Replay(bound(t), a, rate); err != nil || n != want {
		t.Fatalf("replay: %d, %v, want %d", n, err, want)
	}
}

func discard(t *testing.T, s Store, a model.OperatorAct, want int) {
	t.Helper()
	if n, err := s.Discard(bound(t), a); err != nil || n != want {
		t.Fatalf("discard: %d, %v, want %d", n, err, want)
	}
}

func claimDead(t *testing.T, s Store, who string, lease time.Duration, rows int) []model.TransMessage {
	t.Helper()
	got, err := s.ClaimDead(bound(t), model.DeadClaim{Instance: who, Lease: lease, MaxRows: rows})
	if err != nil {
		t.Fatalf("claim dead: %v", err)
	}
	return got
}

func rowKeys(rows []model.TransMessage) []model.RowKey {
	out := make([]model.RowKey, len(rows))
	for i := range rows {
		out[i] = model.RowKey{ID: rows[i].ID, Epoch: rows[i].Epoch}
	}
	return out
}

// alerted marks every DEAD row as told.
func alerted(t *testing.T, s Store) {
	t.Helper()
	rows := claimDead(t, s, instance, hour, 5000)
	if n, err := s.MarkAlerted(bound(t), rowKeys(rows), never); err != nil || n != len(rows) {
		t.Fatalf("mark alerted: %d of %d, %v", n, len(rows), err)
	}
}

// later waits until the store's clock has moved by a few milliseconds.
func later(t *testing.T, s Store) {
	t.Helper()
	start := now(t, s)
	until(t, "the clock moves", func() bool { return now(t, s) > start+2 })
}

func lastEvent(t *testing.T, s Store, id string) model.Event {
	t.Helper()
	_, events, _ := s.Show(bound(t), id) // the row may be gone
	if len(events) == 0 {
		t.Fatalf("row %s has no history", id)
	}
	return events[len(events)-1]
}
