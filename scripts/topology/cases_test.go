package topology_test

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
)

// C71: a queue that exists with other arguments is named with both values, and is left
// alone with what it holds. The same number in another width is no difference, as it is
// none to the broker.
func TestC71_QueueWithOtherArgumentsIsNamedAndKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must("apply")
	admin := w.admin()
	arguments := func(limit any) amqp.Table {
		return amqp.Table{
			"x-dead-letter-exchange": "dead-letters", "x-dead-letter-strategy": "at-least-once",
			"x-delivery-limit": limit, "x-overflow": "reject-publish",
		}
	}
	for _, tc := range []struct {
		name  string
		limit any
		says  string // "": the same
	}{
		{"another number", int64(21), "argument x-delivery-limit is 21, want 20"},
		{"a wider integer", int64(20), ""},
	} {
		if err := admin.DeleteQueue("orders.all"); err != nil {
			t.Fatal(err)
		}
		spec := amqptest.QueueSpec{Name: "orders.all", Type: amqptest.Quorum, Args: arguments(tc.limit)}
		if err := admin.Queue(spec); err != nil {
			t.Fatal(err)
		}
		if err := admin.Bind("orders.all", "orders", "#"); err != nil {
			t.Fatal(err)
		}
		msg := amqp.Publishing{Body: []byte("kept")}
		if err := admin.Publish(t.Context(), "orders", "order.paid", msg); err != nil {
			t.Fatal(err)
		}
		r := w.run("apply")
		switch {
		case tc.says == "" && r.code != 0:
			t.Errorf("%s: apply = %d, want 0\n%s", tc.name, r.code, r.errOut)
		case tc.says != "" && (r.code != 1 || !strings.Contains(r.errOut, "queue orders.all: "+tc.says)):
			t.Errorf("%s: apply = %d, want 1 with %q\n%s", tc.name, r.code, tc.says, r.errOut)
		}
		if got, err := admin.Collect(t.Context(), "orders.all", 1); err != nil || string(got[0].Body) != "kept" {
			t.Errorf("%s: what the queue held: %v, %v", tc.name, got, err)
		}
	}
}
