package transmsg_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
)

// The samples of README and consume.md do what the pages say: an order is placed, its message
// comes twice, and one invoice is written and told of.
func TestSamplesRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := openSQL(t, w.dsn)
	_, err := db.ExecContext(t.Context(), "CREATE TABLE invoices (message VARCHAR(255))")
	must(t, err)
	must(t, w.broker.Exchange("orders", amqp.ExchangeTopic, nil))
	must(t, w.broker.Exchange("dead-letters", amqp.ExchangeFanout, nil))
	for queue, key := range map[string]string{"invoices": "order.*", "told": "invoice.*"} {
		must(t, w.broker.Queue(amqptest.QueueSpec{Name: queue}), w.broker.Bind(queue, "orders", key))
	}
	ob := w.ready(t, w.config())
	must(t, placeOrder(t.Context(), db, ob, Order{Number: "4711", Amount: 1999}))
	got, err := w.broker.Collect(within(t, time.Minute), "invoices", 1)
	must(t, err)
	for range 2 { // the message, and its repeat
		must(t, w.broker.Publish(t.Context(), "orders", "order.placed", amqp.Publishing{
			MessageId: got[0].MessageId, Body: got[0].Body,
		}))
	}
	depth := func() int {
		n, err := w.broker.Depth("invoices")
		must(t, err)
		return n
	}
	for depth() > 0 { // a stop gives back what no handler had begun
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- writeInvoices(ctx, w.amqp, db, ob) }()
		eventually(t, "all messages are delivered", func() bool { return depth() == 0 })
		stop()
		must(t, <-done)
	}
	if _, err := w.broker.Collect(within(t, time.Minute), "told", 1); err != nil {
		t.Error(err)
	}
	more, err := w.broker.Drain("told")
	must(t, err)
	var invoices int
	must(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM invoices").Scan(&invoices))
	if invoices != 1 || len(more) != 0 {
		t.Errorf("%d invoices, and %d told of beside the first; want 1 and none", invoices, len(more))
	}
}

// A service opened as observe.md says exports what the page's table has in its column, and
// nothing of the rows, which no compensator is there to show.
func TestAServiceExportsWhatThePageSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	registry := prometheus.NewRegistry()
	ob, err := openMeasured(t.Context(), w.dsn, w.amqp, registry)
	must(t, err)
	must(t, ob.WaitReady(within(t, time.Minute)))
	r, err := ob.Publish(t.Context(), message(1))
	must(t, err)
	must(t, r.Err(within(t, time.Minute)))
	families, err := registry.Gather()
	must(t, err)
	var exported []string
	for _, f := range families {
		exported = append(exported, f.GetName())
	}
	must(t, ob.Close(within(t, time.Minute)))
	rows := regexp.MustCompile("(?m)^\\| (`transmsg_[^|]+) \\| ([^|]+) \\| [^|]+ \\|$").
		FindAllStringSubmatch(read(t, "docs/operate/observe.md"), -1)
	if len(rows) < 5 {
		t.Errorf("%d rows found in observe.md: does the pattern still find them?", len(rows))
	}
	for _, row := range rows {
		for _, name := range regexp.MustCompile("transmsg_[a-z_]+").FindAllString(row[1], -1) {
			if want := strings.HasPrefix(row[2], "yes"); slices.Contains(exported, name) != want {
				t.Errorf("observe.md says of %s at a service: %s. Exported is %v", name, row[2], exported)
			}
		}
	}
}
