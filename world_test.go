package transmsg_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/internal/faultproxy"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/mysql"
)

// world is a database with the schema and a virtual host with the exchange `ex` and the queue
// `q`, bound with `k`; truth looks at the rows past the Outbox under test.
type world struct {
	dsn, amqp         string
	storeAddr         string // host:port in dsn
	brokerAddr        string // in amqp
	broker            *amqptest.Client
	truth             *gormstore.Store
	toStore, toBroker *faultproxy.Proxy
	first             []string // ids of the first message published
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dsn: dbtest.MySQL(t), amqp: amqptest.VHost(t)}
	_, rest, _ := strings.Cut(w.dsn, "@tcp(")
	w.storeAddr, _, _ = strings.Cut(rest, ")")
	u, err := url.Parse(w.amqp)
	must(t, err)
	w.brokerAddr = u.Host
	w.truth, err = anystore.Migrated(t.Context(), w.dsn, gormstore.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, w.truth.Close()) })
	w.broker = amqptest.Connect(t, w.amqp)
	must(t, w.broker.Exchange("ex", amqp.ExchangeDirect, nil),
		w.broker.Queue(amqptest.QueueSpec{Name: "q"}), w.broker.Bind("q", "ex", "k"))
	return w
}

func (w *world) config() transmsg.Config {
	return transmsg.Config{Service: "orders", Store: mysql.DSN(w.dsn), AMQP: w.amqp}
}

// open opens an Outbox that is closed with the test, if the test does not.
func (w *world) open(t *testing.T, cfg transmsg.Config) *transmsg.Outbox {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	ob, err := transmsg.Open(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { _ = ob.Close(within(t, 10*time.Second)) })
	return ob
}

// ready is open that waits for the broker, so that this process sends what it stores.
func (w *world) ready(t *testing.T, cfg transmsg.Config) *transmsg.Outbox {
	t.Helper()
	ob := w.open(t, cfg)
	must(t, ob.WaitReady(within(t, time.Minute)))
	return ob
}

func (w *world) proxy(t *testing.T, target string) *faultproxy.Proxy {
	t.Helper()
	p, err := faultproxy.New(target)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

// throughProxies leads both connections of a config through proxies.
func (w *world) throughProxies(t *testing.T, cfg transmsg.Config) (gormstore.Source, string) {
	t.Helper()
	w.toStore, w.toBroker = w.proxy(t, w.storeAddr), w.proxy(t, w.brokerAddr)
	return mysql.DSN(strings.Replace(w.dsn, w.storeAddr, w.toStore.Addr(), 1)),
		strings.Replace(cfg.AMQP, w.brokerAddr, w.toBroker.Addr(), 1)
}

func message(n int) transmsg.Message {
	return transmsg.Message{
		ID: model.NewID(), Exchange: "ex", RoutingKey: "k", Key: fmt.Sprint(n), Body: fmt.Appendf(nil, "%d", n),
	}
}

// publish stores n messages and returns their ids.
func (w *world) publish(t *testing.T, ob *transmsg.Outbox, n int) (ids []string) {
	t.Helper()
	for i := range n {
		r, err := ob.Publish(t.Context(), message(i))
		must(t, err)
		ids = append(ids, r.ID())
	}
	if w.first == nil {
		w.first = ids
	}
	return ids
}

// later stores n rows that are due now and that nobody in this process sends but a compensator.
func (w *world) later(t *testing.T, n int) {
	t.Helper()
	rows := make([]model.Draft, n)
	for i := range rows {
		m := message(i)
		rows[i] = model.Draft{TransMessage: model.NewTransMessage("orders", &m, false)}
	}
	_, err := w.truth.Insert(t.Context(), rows)
	must(t, err)
}

// rows counts what is stored, claimed what of it is leased.
func (w *world) rows(t *testing.T) int    { return w.count(t, "") }
func (w *world) claimed(t *testing.T) int { return w.count(t, " WHERE claims > 0") }

func (w *world) count(t *testing.T, where string) (n int) {
	t.Helper()
	row := w.truth.Pool().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM trans_message"+where)
	must(t, row.Scan(&n))
	return n
}

// delivered expects exactly these messages on the queue; repeats are not looked at.
func (w *world) delivered(t *testing.T, want []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := w.broker.Collect(ctx, "q", len(want))
	must(t, err)
	var ids []string
	for _, d := range got {
		ids = append(ids, d.MessageId)
	}
	slices.Sort(ids)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(slices.Compact(ids), want) {
		t.Errorf("delivered %v, want %v", ids, want)
	}
}

func eventually(t *testing.T, state string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", state)
		}
		<-tick.C
	}
}

func openSQL(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	_, err = db.ExecContext(t.Context(), "CREATE TABLE orders (number VARCHAR(20) PRIMARY KEY, amount BIGINT)")
	must(t, err)
	return db
}
