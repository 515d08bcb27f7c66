package compensator_test

import (
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/internal/logtest"
	"github.com/transmsg/transmsg/model"
)

// C48 on a real broker: a user loses the right to write to an exchange that 5,000 rows go
// to. The refusals, each of which closes a channel, are those of the first sends and of
// the probes; a neighbour's rows are delivered; all is delivered after the right is back.
func TestC48_RevokedExchangeOnARealBroker(t *testing.T) {
	t.Parallel()
	node := amqptest.StartNode(t, amqptest.Options{})
	r := newRig(t, "mysql", dbtest.MySQL(t), node.URL())
	r.must(r.Exchange("gone", amqp.ExchangeDirect, nil))
	r.must(r.Queue(amqptest.QueueSpec{Name: "q2"}))
	r.must(r.Bind("q2", "gone", "k"))
	r.must(node.AddUser("limited", "limited", "", "^ex$", ""))
	ids := r.put(5000, "orders", "gone", "k")
	good := r.put(1000, "orders", "ex", "k")

	alerts, log := &collector{}, &logtest.Buffer{}
	var refused, opened counters
	cfg := r.config()
	cfg.Alerter = alerts
	cfg.Policy.BaseDelay, cfg.Policy.MaxAttempts, cfg.Policy.MinDeadAge = time.Second, 5, model.None
	cfg.Sender = r.sender("", func(c *confirms.Config) {
		limited, err := confirms.ParseURL(node.URLFor("limited", "limited", "/"))
		r.must(err)
		c.Credentials, c.Logger = limited.Credentials, textLog(log)
	})
	cfg.Observers = []compensator.Observer{{
		Outcome: func(_ string, o model.Outcome) {
			if o.Kind == model.Refused {
				refused.add(func() { refused.starts++ })
			}
		},
		Breaker: func(string, string, bool) { opened.add(func() { opened.starts++ }) },
	}}
	c := start(t, cfg)
	eventually(t, "the good rows are delivered", func() bool {
		left, err := r.store.ReadBack(t.Context(), good)
		r.must(err)
		return len(left) == 0
	})
	eventually(t, "three probes were refused", func() bool {
		return refused.get(func() int { return refused.starts }) >= 3
	})
	// Every channel that the broker closes is told by the sender.
	closed := len(log.Lines("channel closed by the broker"))
	t.Logf("%d channels closed for 5,000 rows", closed)
	if closed < 3 || closed > 30 {
		t.Errorf("%d channels closed, want a handful for 5,000 rows", closed)
	}
	r.must(node.SetPermissions("limited", "/", "", ".*", ""))
	deadline := time.Now().Add(3 * time.Minute)
	for r.stats().Ready > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("%+v three minutes after the right was given back, want nothing READY", r.stats())
		}
		<-time.After(50 * time.Millisecond)
	}
	c.drained(t)
	if s := r.stats(); s.Dead != 0 {
		t.Errorf("%d rows DEAD, want none", s.Dead)
	}
	var most int
	r.must(r.db.QueryRowContext(t.Context(), "SELECT COALESCE(MAX(attempts), 0) FROM trans_message_event").Scan(&most))
	if most > 2 {
		t.Errorf("a row was charged with %d attempts, want them to go round", most)
	}
	r.deliveredOnce("q1", good)
	r.deliveredOnce("q2", ids)
	told := 0
	for _, a := range alerts.got() {
		if a.Kind == model.AlertExchange && a.Exchange == "gone" && strings.Contains(a.Text, "ACCESS_REFUSED") {
			told++
		}
	}
	if told != 1 || len(alerts.got()) != 1 || opened.get(func() int { return opened.starts }) != 2 {
		t.Errorf("alerts %+v, want one of the exchange; breaker told %d times, want 2", alerts.got(), opened.starts)
	}
}
