package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/metrics"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/store/gormstore"
)

var (
	errDown  = errors.New("database down")
	returned = model.Outcome{Kind: model.Returned, Code: model.CodeNoRoute}
	acked    = model.Outcome{Kind: model.Acked}
)

func TestPublisherObserver(t *testing.T) {
	t.Parallel()
	m, reg := registered(t, metrics.Config{})
	o := metrics.PublisherObserver(m, "orders")
	o.Outcome("1", acked, time.Second)
	o.Outcome("2", acked, time.Second)
	o.Outcome("3", returned, time.Second)
	o.Restored("3")
	o.StoreError("settle", errDown)
	for _, kind := range []error{
		nil, nil, model.ErrConflict, model.ErrDead, model.ErrNotStored, model.ErrStoreUnknown, model.ErrTxMustRollBack,
	} {
		var err error
		if kind != nil {
			err = fmt.Errorf("publisher: %w", &model.StoreError{Kind: kind, Err: errDown})
		}
		o.Published(time.Millisecond, err)
	}
	gather(t, reg).want(t, map[string]float64{
		`transmsg_outcomes_total{code="",kind="acked",role="publisher",service="orders"}`:       2,
		`transmsg_outcomes_total{code="312",kind="returned",role="publisher",service="orders"}`: 1,
		`transmsg_restored_rows_total{role="publisher",service="orders"}`:                       1,
		`transmsg_store_errors_total{operation="settle",role="publisher"}`:                      1,
		`transmsg_store_errors_total{operation="delete",role="publisher"}`:                      0,
		`transmsg_publish_duration_seconds{result="stored",service="orders"}`:                   2,
		`transmsg_publish_duration_seconds{result="refused",service="orders"}`:                  2,
		`transmsg_publish_duration_seconds{result="not-stored",service="orders"}`:               1,
		`transmsg_publish_duration_seconds{result="unknown",service="orders"}`:                  1,
		`transmsg_publish_duration_seconds{result="rolled-back",service="orders"}`:              1,
	})
}

func TestSenderObserver(t *testing.T) {
	t.Parallel()
	m, reg := registered(t, metrics.Config{})
	o := metrics.SenderObserver(m, "relay")
	o.Answered(model.Acked, time.Millisecond)
	o.ChannelClosed(404, "NOT_FOUND")
	o.ChannelClosed(404, "NOT_FOUND")
	gather(t, reg).want(t, map[string]float64{
		`transmsg_confirm_duration_seconds{sender="relay"}`:                   1,
		`transmsg_sender_channel_exceptions_total{code="404",sender="relay"}`: 2,
	})
}

func TestCompensatorObserver(t *testing.T) {
	t.Parallel()
	m, reg := registered(t, metrics.Config{})
	o := m.CompensatorObserver()
	row := &model.TransMessage{Service: "orders"}
	o.RunStart()
	gather(t, reg).want(t, map[string]float64{`transmsg_runs_started_total{}`: 1, `transmsg_lock_held{}`: 1})
	o.RunEnd(compensator.RunStats{Claims: 2, Rows: 40, Waiting: 5, Duration: time.Second})
	o.RunEnd(compensator.RunStats{Claims: 1, Cause: fmt.Errorf("run: %w", compensator.ErrLockLost)})
	o.RunEnd(compensator.RunStats{Cause: context.Canceled})
	o.RunEnd(compensator.RunStats{Cause: errDown})
	o.RunSkipped(compensator.SkipLocked)
	o.Outcome("orders", returned)
	o.Settled(row, returned, model.Ready)
	o.Settled(row, returned, model.Dead)
	o.LeaseConflict("orders")
	o.Restored("orders", "4")
	o.StoreError("claim", errDown)
	o.Alert(compensator.Alert{}, true)
	o.Alert(compensator.Alert{}, false)
	o.Purged("events", 500)
	o.Purged("events", 20)
	o.Purged("dead", 3)
	o.Breaker("gone", "", true)
	o.Breaker("gone", "", true) // by two compensators of one process
	o.Breaker("ex", "bad", true)
	o.Breaker("ex", "worse", true)
	o.LeaseConflict("no \xff UTF-8") // a row written by SQL
	gather(t, reg).want(t, map[string]float64{
		`transmsg_lock_held{}`:                      0,
		`transmsg_runs_total{result="drained"}`:     1,
		`transmsg_runs_total{result="lock-lost"}`:   1,
		`transmsg_runs_total{result="stopped"}`:     1,
		`transmsg_runs_total{result="ended-early"}`: 1,
		`transmsg_runs_total{result="locked"}`:      1,
		`transmsg_run_duration_seconds{}`:           4,
		`transmsg_claims_total{}`:                   3,
		`transmsg_claimed_rows_total{}`:             40,
		`transmsg_waiting_rows_total{}`:             5,
		`transmsg_purged_total{what="events"}`:      520,
		`transmsg_purged_total{what="dead"}`:        3,
		`transmsg_breaker_open{exchange="gone"}`:    1,
		`transmsg_breaker_open{exchange="ex"}`:      2,
		`transmsg_outcomes_total{code="312",kind="returned",role="compensator",service="orders"}`: 1,
		`transmsg_dead_total{code="312",service="orders"}`:                                        1,
		`transmsg_lease_conflicts_total{service="orders"}`:                                        1,
		`transmsg_lease_conflicts_total{service="no ` + "\uFFFD" + ` UTF-8"}`:                     1,
		`transmsg_restored_rows_total{role="compensator",service="orders"}`:                       1,
		`transmsg_store_errors_total{operation="claim",role="compensator"}`:                       1,
		`transmsg_alerts_total{result="delivered"}`:                                               1,
		`transmsg_alerts_total{result="failed"}`:                                                  1,
	})
	o.Breaker("gone", "", false)
	o.Breaker("ex", "bad", false)
	o.Breaker("never", "", false)
	after := gather(t, reg)
	after.want(t, map[string]float64{`transmsg_breaker_open{exchange="ex"}`: 1})
	for _, exchange := range []string{"gone", "never"} {
		if v, there := after[`transmsg_breaker_open{exchange="`+exchange+`"}`]; there {
			t.Errorf("exchange %s is whole and still shown with %v", exchange, v)
		}
	}
	families, err := reg.Gather()
	must(t, err)
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) != 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

// unreachable is a store of its own and a sender whose broker never answers.
func unreachable(t *testing.T) (*gormstore.Store, *confirms.Sender) {
	t.Helper()
	store, err := anystore.Migrated(t.Context(), "sqlite::memory:", gormstore.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	cfg, err := confirms.ParseURL("amqp://user:password@127.0.0.1:1/") // nothing listens there
	must(t, err)
	sender, err := confirms.Open(cfg)
	must(t, err)
	t.Cleanup(func() { must(t, sender.Close(context.WithoutCancel(t.Context()))) })
	return store, sender
}

// A rate needs a value before the first event: what can happen is there from the start.
func TestCompensatorStartsAtZero(t *testing.T) {
	t.Parallel()
	m, reg := registered(t, metrics.Config{})
	m.CompensatorObserver()
	want := map[string]float64{
		`transmsg_waiting_rows_total{}`:                  0,
		`transmsg_purged_total{what="events"}`:           0,
		`transmsg_purged_total{what="dead"}`:             0,
		`transmsg_purged_total{what="inbox"}`:            0,
		`transmsg_alerts_total{result="failed"}`:         0,
		`transmsg_runs_total{result="lock-unavailable"}`: 0,
		`transmsg_runs_total{result="sender-not-ready"}`: 0,
		`transmsg_runs_total{result="lock-lost"}`:        0,
		`transmsg_runs_total{result="drained"}`:          0,
	}
	for _, op := range operations(t) {
		want[`transmsg_store_errors_total{operation="`+op+`",role="compensator"}`] = 0
	}
	gather(t, reg).want(t, want)
}

// operations are those that the comment of the compensator's Observer.StoreError names.
func operations(t *testing.T) (ops []string) {
	t.Helper()
	text, err := os.ReadFile("../compensator/observer.go")
	must(t, err)
	_, comment, _ := strings.Cut(string(text), "// StoreError:")
	comment, _, _ = strings.Cut(comment, "StoreError func")
	for _, quoted := range regexp.MustCompile(`"([a-z-]+)"`).FindAllStringSubmatch(comment, -1) {
		ops = append(ops, quoted[1])
	}
	if len(ops) < 10 {
		t.Fatalf("the comment of StoreError names %q, want ten operations or more", ops)
	}
	return ops
}

// Observers that the caller had set are called beside those of the metrics.
func TestObserversOfTheCallerAreCalled(t *testing.T) {
	t.Parallel()
	store, sender := unreachable(t)
	m, reg := registered(t, metrics.Config{})
	called := make(chan error, 10)
	pub, err := m.OpenPublisher(publisher.Config{
		Service: "orders", Store: store, Sender: sender,
		Observers: []publisher.Observer{{Published: func(_ time.Duration, err error) { called <- err }}},
	})
	must(t, err)
	_, err = pub.Publish(t.Context(), model.Message{Exchange: "ex", RoutingKey: "k", Body: []byte("1")})
	must(t, err, pub.Close(t.Context()))
	if len(called) != 1 {
		t.Errorf("the caller's observer heard of %d calls, want 1", len(called))
	}
	gather(t, reg).want(t, map[string]float64{
		`transmsg_publish_duration_seconds{result="stored",service="orders"}`: 1,
	})
}
