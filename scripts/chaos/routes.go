package main

import (
	"hash/fnv"
	"math/rand/v2"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
)

// serviceName owns all rows.
const serviceName = "chaos"

// route is where a message goes; its one-letter name stands in the ledger.
type route struct {
	name     string
	exchange string
	key      string
	queues   []string // all of which must get it
}

// The queues. The small one refuses what it has no room for (reject-publish).
const (
	queueClassic = "q.classic"
	queueQuorum  = "q.quorum"
	queueFan     = "q.fan"
	queueSmall   = "q.small"
	smallLength  = 50
)

// queues are all of them.
func queues() []string { return []string{queueClassic, queueQuorum, queueFan, queueSmall} }

// routes are by name.
func routes() map[string]route {
	return map[string]route{
		"c": {"c", "ex.classic", "k", []string{queueClassic}},
		"q": {"q", "ex.quorum", "k", []string{queueQuorum}},
		"f": {"f", "ex.fan", "", []string{queueFan, queueSmall}},
		// Bound to nothing: returned until it is DEAD.
		"n": {"n", "ex.classic", "nowhere", nil},
	}
}

// drawRoute chooses by weight.
func drawRoute(r *rand.Rand) route {
	all := routes()
	switch n := r.IntN(1000); {
	case n < 400:
		return all["c"]
	case n < 700:
		return all["q"]
	case n < 995:
		return all["f"]
	default:
		return all["n"]
	}
}

// declare makes the topology. Only exchanges with one queue are ever taken apart: with a
// part of a fan-out gone the broker rightly acks what the other part took.
func (w *world) declare(c *amqptest.Client) error {
	kind := amqptest.Classic
	if w.mode == modeCluster { // a classic queue is only as alive as its node
		kind = amqptest.Quorum
	}
	small := amqp.Table{"x-max-length": int32(smallLength), "x-overflow": "reject-publish"}
	for _, do := range []func() error{
		func() error { return c.Queue(amqptest.QueueSpec{Name: queueClassic, Type: kind}) },
		func() error { return c.Work(workLadder(), deadLetters) },
		func() error { return c.Queue(amqptest.QueueSpec{Name: queueFan, Type: kind}) },
		func() error { return c.Queue(amqptest.QueueSpec{Name: queueSmall, Type: kind, Args: small}) },
		func() error { return c.Exchange("ex.fan", "fanout", nil) },
		func() error { return c.Bind(queueFan, "ex.fan", "") },
		func() error { return c.Bind(queueSmall, "ex.fan", "") },
		func() error { return mend(c, routes()["c"]) },
		func() error { return mend(c, routes()["q"]) },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// mend declares what a single-queue route needs, whatever is there already.
func mend(c *amqptest.Client, r route) error {
	if err := c.Exchange(r.exchange, "direct", nil); err != nil {
		return err
	}
	return c.Bind(r.queues[0], r.exchange, r.key)
}

// bodyOf is the body of a message: sender and consumer both compute it from the id.
func bodyOf(id string) []byte {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // never fails
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	n := r.IntN(600)
	if r.IntN(50) == 0 {
		n = r.IntN(20000)
	}
	body := make([]byte, n)
	for i := range body {
		body[i] = byte(r.Uint32())
	}
	return body
}
