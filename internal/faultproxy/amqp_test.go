package faultproxy_test

import (
	"net/url"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
)

func TestSwallowAcksTakesAcksOutAndNothingElse(t *testing.T) {
	t.Parallel()
	broker, err := url.Parse(amqptest.VHost(t))
	if err != nil {
		t.Fatal(err)
	}
	direct := amqptest.Connect(t, broker.String())
	p := newProxy(t, broker.Host)
	broker.Host = p.Addr()
	conn, err := amqp.Dial(broker.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	returns := ch.NotifyReturn(make(chan amqp.Return, 10))
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	if err := direct.Queue(amqptest.QueueSpec{Name: "q"}); err != nil {
		t.Fatal(err)
	}
	publish := func(key string) *amqp.DeferredConfirmation {
		t.Helper()
		dc, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", key, true, false,
			amqp.Publishing{Body: make([]byte, 100_000)})
		if err != nil {
			t.Fatal(err)
		}
		return dc
	}
	if !publish("q").Wait() {
		t.Fatal("nack")
	}
	p.SwallowAcks(true)
	lost := publish("q")
	until(t, "the ack is swallowed", func() bool { return p.Stats().SwallowedAcks == 1 })
	unroutable := publish("nowhere")
	if r := <-returns; len(r.Body) != 100_000 {
		t.Errorf("the return came with %d bytes of body", len(r.Body))
	}
	until(t, "the second ack is swallowed", func() bool { return p.Stats().SwallowedAcks == 2 })
	p.SwallowAcks(false)
	later := publish("q")
	if !later.Wait() {
		t.Error("an ack after the fault did not arrive")
	}
	if lost.Acked() || unroutable.Acked() {
		t.Error("a swallowed ack arrived")
	}
	if got, err := direct.Collect(t.Context(), "q", 3); err != nil {
		t.Errorf("the queue holds %d, %v; want 3", len(got), err)
	}
}
