package transmsg_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg"
	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/internal/faultproxy"
	"github.com/transmsg/transmsg/metrics"
	"github.com/transmsg/transmsg/model"
)

// within is a context for a Close that is expected to end before it.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), d)
	t.Cleanup(cancel)
	return ctx
}

// Close drains: what was published is confirmed, deleted, and on the queue.
func TestCloseDrains(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ob := w.ready(t, w.config())
	ids := w.publish(t, ob, 50)
	must(t, ob.Close(within(t, time.Minute)))
	if rows := w.rows(t); rows != 0 {
		t.Errorf("%d rows are left, want none", rows)
	}
	w.delivered(t, ids)
	if _, err := ob.Publish(t.Context(), message(1)); !errors.Is(err, model.ErrClosed) {
		t.Errorf("publish after the close: got %v, want ErrClosed", err)
	}
	must(t, ob.Close(within(t, time.Second)))
}

// Messages whose confirms are out when the time of Close is over stay in the table, and the
// error says how many.
func TestCloseWithMessagesInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg, proxy := w.config(), w.proxy(t, w.brokerAddr)
	cfg.AMQP = strings.Replace(cfg.AMQP, w.brokerAddr, proxy.Addr(), 1)
	ob := w.ready(t, cfg)
	w.publish(t, ob, 1)
	eventually(t, "the first is confirmed and deleted", func() bool { return w.rows(t) == 0 })
	proxy.Stall(faultproxy.ToClient)
	w.publish(t, ob, 7)
	err := ob.Close(within(t, 200*time.Millisecond))
	if !errors.Is(err, model.ErrNotDrained) || !strings.Contains(err.Error(), "7 messages") {
		t.Errorf("got %v, want ErrNotDrained that says 7 messages", err)
	}
	if again := ob.Close(within(t, time.Second)); !errors.Is(again, model.ErrNotDrained) {
		t.Errorf("the second Close: got %v, want the first's error", again)
	}
	if rows := w.rows(t); rows != 7 {
		t.Errorf("%d rows, want all 7: none is lost", rows)
	}
}

// The database is gone when confirmed rows are to be deleted: Close says how many it could not
// write, and all are still there.
func TestCloseWithTheDatabaseDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg := w.config()
	cfg.Store, cfg.AMQP = w.throughProxies(t, cfg)
	ob := w.ready(t, cfg)
	w.publish(t, ob, 1)
	eventually(t, "the first is confirmed and deleted", func() bool { return w.rows(t) == 0 })
	w.toBroker.Stall(faultproxy.ToClient)
	ids := w.publish(t, ob, 5)
	w.toStore.Refuse(true)
	if w.toStore.Cut(true) == 0 {
		t.Fatal("no connection to the database was cut")
	}
	w.toBroker.Resume()
	w.delivered(t, append(ids, w.first...))
	err := ob.Close(within(t, 3*time.Second))
	if !errors.Is(err, model.ErrNotDrained) || !strings.Contains(err.Error(), "5 results not written") {
		t.Errorf("got %v, want ErrNotDrained that says 5", err)
	}
	if rows := w.rows(t); rows != 5 {
		t.Errorf("%d rows, want all 5", rows)
	}
}

// With the broker down at the start messages are stored, and Close has nothing to wait for;
// a compensator of the same process sends them once it is there, and its claims are counted.
func TestOpenWithTheBrokerDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg, proxy := w.config(), w.proxy(t, w.brokerAddr)
	cfg.AMQP = strings.Replace(cfg.AMQP, w.brokerAddr, proxy.Addr(), 1)
	proxy.Refuse(true)
	ob := w.open(t, cfg)
	ids := w.publish(t, ob, 3)
	must(t, ob.Close(within(t, 10*time.Second)))
	if rows := w.rows(t); rows != 3 {
		t.Fatalf("%d rows, want 3", rows)
	}
	figures, err := metrics.New(metrics.Config{})
	must(t, err)
	cfg.Metrics, cfg.Compensate = figures, compensator.Config{Interval: 50 * time.Millisecond}
	ob = w.open(t, cfg)
	ids = append(ids, w.publish(t, ob, 2)...)
	proxy.Refuse(false)
	eventually(t, "all rows are delivered", func() bool { return w.rows(t) == 0 })
	must(t, ob.Close(within(t, time.Minute)))
	w.delivered(t, ids)
	page := httptest.NewRecorder()
	figures.Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if body := page.Body.String(); !regexp.MustCompile(`(?m)^transmsg_claimed_rows_total [3-5]$`).MatchString(body) {
		t.Errorf("the compensator's claims are not counted:\n%s", body)
	}
}

// A compensator's messages that are out when the time of Close is over are counted too, and its
// run ends with Close, before its own DrainTimeout.
func TestCloseWithACompensatorsMessagesInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cfg, proxy := w.config(), w.proxy(t, w.brokerAddr)
	cfg.AMQP = strings.Replace(cfg.AMQP, w.brokerAddr, proxy.Addr(), 1)
	proxy.Refuse(true)
	ob := w.open(t, cfg)
	w.publish(t, ob, 4)
	must(t, ob.Close(within(t, 10*time.Second)))

	claimed := make(chan int, 1000)
	cfg.Compensate = compensator.Config{
		Interval: 50 * time.Millisecond, DrainTimeout: time.Hour,
		Observers: []compensator.Observer{{Outcome: func(string, model.Outcome) { claimed <- 1 }}},
	}
	ob = w.open(t, cfg)
	proxy.Refuse(false)
	eventually(t, "both are connected and the rows are sent", func() bool { return w.rows(t) == 0 })
	w.later(t, 6)
	proxy.Stall(faultproxy.ToClient)
	eventually(t, "the rows are claimed", func() bool { return w.claimed(t) == 6 })
	eventually(t, "the rows are on the wire", func() bool { return proxy.Stats().Stalled > 0 })
	err := ob.Close(within(t, 500*time.Millisecond))
	if !errors.Is(err, model.ErrNotDrained) || !strings.Contains(err.Error(), "6 sends without an outcome") {
		t.Errorf("got %v, want ErrNotDrained that says 6", err)
	}
	if rows := w.rows(t); rows != 6 {
		t.Errorf("%d rows, want all 6", rows)
	}
}

var _ transmsg.Compensator = compensator.Config{}
