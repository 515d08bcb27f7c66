package scriptedbroker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/transmsg/transmsg/internal/scriptedbroker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newPeer(t *testing.T, options scriptedbroker.Options) *scriptedbroker.Peer {
	t.Helper()
	p, err := scriptedbroker.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(p.Close(), p.Close()); err != nil {
			t.Error(err)
		}
	})
	return p
}

func dial(t *testing.T, p *scriptedbroker.Peer) (*amqp.Connection, *scriptedbroker.Conn) {
	t.Helper()
	client, err := amqp.Dial(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.CloseDeadline(time.Now().Add(time.Second)) })
	server, err := p.NextConn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return client, server
}

func confirming(t *testing.T, conn *amqp.Connection) *amqp.Channel {
	t.Helper()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	return ch
}

func publish(t *testing.T, ch *amqp.Channel, id string, body []byte) *amqp.DeferredConfirmation {
	t.Helper()
	dc, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "x", "k", true, false, amqp.Publishing{
		MessageId: id, Body: body, ContentType: "text/plain", CorrelationId: "c", Priority: 3,
		Headers: amqp.Table{"h": int64(7)}, DeliveryMode: amqp.Persistent, Expiration: "60000", AppId: "a",
	})
	if err != nil {
		t.Fatal(err)
	}
	return dc
}

func next(t *testing.T, p *scriptedbroker.Peer) *scriptedbroker.Publish {
	t.Helper()
	m, err := p.NextPublish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPublishIsHandedOverWhole(t *testing.T) {
	t.Parallel()
	p := newPeer(t, scriptedbroker.Options{})
	client, server := dial(t, p)
	ch := confirming(t, client)
	for i, size := range []int{0, 1, 131064, 300_000} { // None, one, a full frame, several.
		body := bytes.Repeat([]byte{byte(i)}, size)
		publish(t, ch, fmt.Sprint("id-", i), body)
		got := next(t, p)
		if got.Conn != server || !bytes.Equal(got.Body, body) {
			t.Errorf("size %d: %d bytes arrived", size, len(got.Body))
		}
		got.Conn, got.Body, got.Header = nil, nil, nil
		want := &scriptedbroker.Publish{
			Channel: 1, Tag: uint64(i + 1), Exchange: "x", RoutingKey: "k", Mandatory: true,
			MessageID: fmt.Sprint("id-", i),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("size %d (-want +got):\n%s", size, diff)
		}
	}
	plain, err := client.Channel()
	must(t, err)
	must(t, plain.PublishWithContext(t.Context(), "", "q", false, false, amqp.Publishing{}))
	if got := next(t, p); got.Tag != 0 || got.Mandatory || got.MessageID != "" || got.Channel != 2 {
		t.Errorf("without confirms = %+v", got)
	}
}

func TestAcksInAnyOrder(t *testing.T) {
	t.Parallel()
	p := newPeer(t, scriptedbroker.Options{})
	client, _ := dial(t, p)
	ch := confirming(t, client)
	var sent []*amqp.DeferredConfirmation
	var got []*scriptedbroker.Publish
	for i := range 5 {
		sent = append(sent, publish(t, ch, fmt.Sprint(i), nil))
		got = append(got, next(t, p))
	}
	must(t, got[4].Ack(false))
	if !sent[4].Wait() || sent[3].Acked() {
		t.Error("the last ack alone resolves the last alone")
	}
	must(t, got[0].Nack(false))
	if sent[0].Wait() {
		t.Error("a nack arrived as an ack")
	}
	must(t, got[2].Ack(true))
	if !sent[1].Wait() || !sent[2].Wait() || sent[3].Acked() {
		t.Error("a multiple ack resolves all up to its tag")
	}
	must(t, got[3].Nack(true))
	if sent[3].Wait() {
		t.Error("a multiple nack arrived as an ack")
	}
}

func TestReturnEchoesTheMessage(t *testing.T) {
	t.Parallel()
	p := newPeer(t, scriptedbroker.Options{})
	client, _ := dial(t, p)
	ch := confirming(t, client)
	returns := ch.NotifyReturn(make(chan amqp.Return, 1))
	body := bytes.Repeat([]byte("b"), 200_000)
	dc := publish(t, ch, "id", body)
	m := next(t, p)
	must(t, m.Return(312, "NO_ROUTE"))
	must(t, m.Ack(false))
	if !dc.Wait() {
		t.Error("nack")
	}
	want := amqp.Return{
		ReplyCode: 312, ReplyText: "NO_ROUTE", Exchange: "x", RoutingKey: "k", ContentType: "text/plain",
		Headers: amqp.Table{"h": int64(7)}, DeliveryMode: amqp.Persistent, Priority: 3, CorrelationId: "c",
		Expiration: "60000", MessageId: "id", AppId: "a",
	}
	got := <-returns
	if !bytes.Equal(got.Body, body) {
		t.Errorf("%d bytes of body came back", len(got.Body))
	}
	got.Body = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCloseChannelLeavesTheOthers(t *testing.T) {
	t.Parallel()
	p := newPeer(t, scriptedbroker.Options{})
	client, server := dial(t, p)
	bad, good := confirming(t, client), confirming(t, client)
	closed := bad.NotifyClose(make(chan *amqp.Error, 1))
	publish(t, bad, "1", nil)
	must(t, server.CloseChannel(next(t, p).Channel, 404, "NOT_FOUND - gone"))
	if err := <-closed; err == nil || err.Code != 404 || err.Reason != "NOT_FOUND - gone" {
		t.Errorf("close reason = %v", err)
	}
	dc := publish(t, good, "2", nil)
	must(t, next(t, p).Ack(false))
	if !dc.Wait() {
		t.Error("the other channel is dead")
	}
	// A channel opened again starts at tag 1.
	again := confirming(t, client)
	publish(t, again, "3", nil)
	if m := next(t, p); m.Tag != 1 {
		t.Errorf("first tag = %d", m.Tag)
	}
	if n := server.Channels(); n != 2 {
		t.Errorf("Channels = %d, want 2", n)
	}
	must(t, again.Close())
	if n := server.Channels(); n != 1 {
		t.Errorf("Channels after Close = %d, want 1", n)
	}
}

func TestCloseConnectionAndCut(t *testing.T) {
	t.Parallel()
	p := newPeer(t, scriptedbroker.Options{})
	client, server := dial(t, p)
	closed := client.NotifyClose(make(chan *amqp.Error, 1))
	must(t, server.Close(320, "CONNECTION_FORCED - bye"))
	if err := <-closed; err == nil || err.Code != 320 {
		t.Errorf("close reason = %v, want 320", err)
	}
	<-server.Done()

	client, server = dial(t, p)
	closed = client.NotifyClose(make(chan *amqp.Error, 1))
	server.Cut()
	server.Cut()
	if err := <-closed; err == nil || err.Code == 320 {
		t.Errorf("close reason of a cut = %v", err)
	}
	<-server.Done()
	if err := server.Blocked("late"); err == nil {
		t.Error("sending on a dead connection is no error")
	}
}

func TestBlockedAndUnblocked(t *testing.T) {
	t.Parallel()
	p := newPeer(t, scriptedbroker.Options{})
	client, server := dial(t, p)
	blocked := client.NotifyBlocked(make(chan amqp.Blocking, 2))
	must(t, server.Blocked("low on memory"))
	must(t, server.Unblocked())
	if diff := cmp.Diff(amqp.Blocking{Active: true, Reason: "low on memory"}, <-blocked); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if b := <-blocked; b.Active {
		t.Error("still blocked")
	}
}

func TestDeclareByScript(t *testing.T) {
	t.Parallel()
	p := newPeer(t, scriptedbroker.Options{})
	client, _ := dial(t, p)
	declare := func() error {
		ch, err := client.Channel()
		must(t, err)
		return ch.ExchangeDeclarePassive("x", "direct", true, false, false, false, nil)
	}
	must(t, declare())
	p.SetMissing("x", true)
	var refused *amqp.Error
	if err := declare(); !errors.As(err, &refused) || refused.Code != 404 {
		t.Errorf("declare of a missing exchange = %v, want 404", err)
	}
	p.SetMissing("x", false)
	must(t, declare())
	if n := p.Declares("x"); n != 3 {
		t.Errorf("Declares = %d, want 3", n)
	}
}

func TestStopReadingBlocksWritesWhileHeartbeatsGoOn(t *testing.T) {
	t.Parallel()
	p := newPeer(t, scriptedbroker.Options{Heartbeat: time.Second})
	raw, err := net.Dial("tcp", p.Addr())
	must(t, err)
	spy := &countingConn{Conn: raw, heartbeats: make(chan struct{}, 100)}
	client, err := amqp.Open(spy, amqp.Config{Heartbeat: time.Second, SASL: []amqp.Authentication{
		&amqp.PlainAuth{Username: "guest", Password: "guest"},
	}})
	must(t, err)
	defer raw.Close()
	server, err := p.NextConn(t.Context())
	must(t, err)
	ch := confirming(t, client)
	server.StopReading()
	server.StopReading()
	stuck := make(chan error, 1)
	go func() {
		big := amqp.Publishing{Body: make([]byte, 1<<20)}
		for {
			if err := ch.PublishWithContext(t.Context(), "x", "k", false, false, big); err != nil {
				stuck <- err
				return
			}
		}
	}()
	for range len(spy.heartbeats) {
		<-spy.heartbeats
	}
	<-spy.heartbeats
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if m, err := p.NextPublish(short); err == nil {
		t.Errorf("the peer has read a message of %d bytes", len(m.Body))
	}
	// Not by the client's own means: it hangs in its write.
	raw.Close()
	if err := <-stuck; err == nil {
		t.Error("publish on a closed socket succeeded")
	}
	server.ResumeReading()
	server.ResumeReading()
	<-server.Done()
}

// countingConn tells of heartbeat frames that arrive.
type countingConn struct {
	net.Conn
	heartbeats chan struct{}
}

func (c *countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if bytes.HasSuffix(b[:n], []byte{8, 0, 0, 0, 0, 0, 0, 0xCE}) {
		select {
		case c.heartbeats <- struct{}{}:
		default:
		}
	}
	return n, err
}

func TestOnPublishScript(t *testing.T) {
	t.Parallel()
	p := newPeer(t, scriptedbroker.Options{OnPublish: func(m *scriptedbroker.Publish) {
		if m.Tag%3 == 0 {
			_ = m.Nack(false)
			return
		}
		_ = m.Ack(false)
	}})
	for range 3 {
		client, _ := dial(t, p)
		ch := confirming(t, client)
		for i := 1; i <= 9; i++ {
			if got := publish(t, ch, "id", nil).Wait(); got != (i%3 != 0) {
				t.Errorf("tag %d: ack = %t", i, got)
			}
		}
	}
	if n := p.Conns(); n != 3 {
		t.Errorf("Conns = %d, want 3", n)
	}
}

func TestUnknownMethodEndsTheConnection(t *testing.T) {
	t.Parallel()
	p := newPeer(t, scriptedbroker.Options{})
	client, _ := dial(t, p)
	ch, err := client.Channel()
	must(t, err)
	_, err = ch.QueueDeclare("q", false, false, false, false, nil)
	var refused *amqp.Error
	if !errors.As(err, &refused) || refused.Code != amqp.NotImplemented {
		t.Errorf("queue.declare = %v, want 540", err)
	}
}

func TestOptionsAreRefused(t *testing.T) {
	t.Parallel()
	if _, err := scriptedbroker.New(scriptedbroker.Options{Heartbeat: 1500 * time.Millisecond}); err == nil {
		t.Error("a heartbeat that AMQP cannot carry was accepted")
	}
}
