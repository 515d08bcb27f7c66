package compensator_test

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
)

// E4 on three real nodes: first the home of a classic queue is stopped, whose 312 use the attempts
// up within a second, then the majority of a quorum queue, which nacks or does not answer, as its
// members happen to notice. No row goes DEAD before its least age, and all are delivered when the
// nodes are back.
func TestE4_NodesThatAreDownMakeNoRowDead(t *testing.T) {
	t.Parallel()
	first := amqptest.StartNode(t, amqptest.Options{})
	second := amqptest.StartNode(t, amqptest.Options{Join: first})
	third := amqptest.StartNode(t, amqptest.Options{Join: first})
	r := newRig(t, "mysql", dbtest.MySQL(t), first.URL())
	// A classic queue, and the leader of a quorum queue, live where they were declared.
	elsewhere := amqptest.Connect(t, second.URL())
	r.must(elsewhere.Queue(amqptest.QueueSpec{Name: "classic"}))
	r.must(elsewhere.Queue(amqptest.QueueSpec{Name: "quorum", Args: amqp.Table{"x-queue-type": "quorum"}}))
	r.must(r.Bind("classic", "ex", "classic"))
	r.must(r.Bind("quorum", "ex", "quorum"))
	alerts := &collector{}
	c := start(t, r.exhausting(alerts, 0)) // the default: 1 h

	for _, down := range []struct {
		queue string
		nodes []*amqptest.Node
		// usedUp rows have all their attempts used up; else some of their sends have failed.
		usedUp bool
	}{
		{"classic", []*amqptest.Node{second}, true},
		{"quorum", []*amqptest.Node{second, third}, false},
	} {
		for _, n := range down.nodes {
			r.must(n.Stop())
		}
		before := alerts.told(model.AlertExhausted)
		ids := r.put(20, "orders", "ex", down.queue)
		eventually(t, down.queue+": sends fail, and go on", func() bool {
			rows, err := r.store.List(t.Context(), model.Filter{RoutingKey: down.queue})
			r.must(err)
			failed := 0
			for i := range rows {
				if rows[i].Attempts >= 4 || !down.usedUp && rows[i].Failures > 0 { // of 2
					failed++
				}
			}
			return len(rows) == len(ids) && (failed == len(ids) || !down.usedUp && failed > 0)
		})
		if down.usedUp {
			eventually(t, down.queue+": a person is told", func() bool {
				return alerts.told(model.AlertExhausted) == before+len(ids)
			})
		}
		if s := r.stats(); s.Dead != 0 || down.usedUp && s.Exhausted != int64(len(ids)) {
			t.Errorf("%s: %+v, want none DEAD, and all exhausted where attempts are used up", down.queue, s)
		}
		for _, n := range down.nodes {
			r.must(n.Start(t.Context()))
		}
		r.untilRows(0, 0)
		r.delivered(down.queue, ids)
	}
	c.drained(t)
}
