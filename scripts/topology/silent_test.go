package topology_test

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
)

// TestF6_QueuesThatLoseInSilenceAreNamed: what others bound behind our exchanges takes a
// confirmed message and loses it. Each kind is named alone, and its harmless sister is not.
func TestF6_QueuesThatLoseInSilenceAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must("apply")
	admin := w.admin()
	for _, exchange := range []string{"near", "far"} {
		if err := admin.Exchange(exchange, "fanout", nil); err != nil {
			t.Fatal(err)
		}
	}
	// A circle: whoever follows bindings without remembering would not end.
	for source, destination := range map[string]string{"orders": "near", "near": "far", "far": "near"} {
		if err := admin.BindExchange(destination, source, "#"); err != nil {
			t.Fatal(err)
		}
	}
	ttl := func(more amqp.Table) amqp.Table {
		more["x-message-ttl"] = 60_000
		return more
	}
	for _, tc := range []struct {
		name, exchange string
		spec           amqptest.QueueSpec
		says           string // "": nothing
	}{
		{
			"drops, behind one exchange", "near",
			amqptest.QueueSpec{Args: amqp.Table{"x-max-length": 2}},
			"queue bound: max-length 2 with overflow drop-head drops confirmed messages",
		},
		{
			"drops, behind two", "far",
			amqptest.QueueSpec{Args: amqp.Table{"x-max-length": 2}},
			"queue bound: max-length 2 with overflow drop-head drops confirmed messages",
		},
		{
			"refuses, behind two", "far",
			amqptest.QueueSpec{Args: amqp.Table{"x-max-length": 2, "x-overflow": "reject-publish"}},
			"",
		},
		{
			"too old, no dead letters", "orders",
			amqptest.QueueSpec{Args: ttl(amqp.Table{})},
			"queue bound: message-ttl 60000 without a dead-letter exchange drops confirmed messages",
		},
		{
			"too old, behind two", "far",
			amqptest.QueueSpec{Args: ttl(amqp.Table{})},
			"queue bound: message-ttl 60000 without a dead-letter exchange drops confirmed messages",
		},
		{
			"too old, kept", "orders",
			amqptest.QueueSpec{Args: ttl(amqp.Table{"x-dead-letter-exchange": "dead-letters"})},
			"",
		},
		{
			"too old, to an exchange that is not there", "orders",
			amqptest.QueueSpec{Args: ttl(amqp.Table{"x-dead-letter-exchange": "typo"})},
			"queue bound: message-ttl 60000 with dead-letter exchange typo drops confirmed messages: " +
				"no queue takes them",
		},
		{"too old, to a queue by its name", "orders", amqptest.QueueSpec{Args: ttl(amqp.Table{
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "payments.all",
		})}, ""},
		{
			"given back too often", "orders",
			amqptest.QueueSpec{Type: amqptest.Quorum, Args: amqp.Table{"x-delivery-limit": 3}},
			"queue bound: delivery-limit 3 without a dead-letter exchange drops confirmed messages",
		},
		{"transient", "orders", amqptest.QueueSpec{Transient: true}, "queue bound: is transient"},
		{"transient, behind two", "far", amqptest.QueueSpec{Transient: true}, "queue bound: is transient"},
		{
			"for one consumer", "orders",
			amqptest.QueueSpec{AutoDelete: true},
			"queue bound: is deleted with its messages when its last consumer leaves",
		},
		{"transient, of another exchange", "amq.fanout", amqptest.QueueSpec{Transient: true}, ""},
		{
			"dead letters, transient", "dead-letters",
			amqptest.QueueSpec{Transient: true},
			"dead-letter queue bound: is transient",
		},
	} {
		tc.spec.Name = "bound"
		if err := admin.Queue(tc.spec); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if err := admin.Bind("bound", tc.exchange, "#"); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		t.Log(tc.name)
		if tc.says == "" {
			w.must("check")
		} else {
			w.refuses("check", tc.says)
		}
		if err := admin.DeleteQueue("bound"); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
	}
	w.ctl("set_policy", "-p", w.vhost, "--apply-to", "exchanges", "other", "^far$", `{"alternate-exchange":"x"}`)
	w.refuses("check", "exchange far: an alternate exchange takes what no queue wants")
}
