package confirms_test

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

const benchWindow = 1000

// BenchmarkRaw is the client library alone: one goroutine, a window of 1000.
func BenchmarkRaw(b *testing.B) {
	for _, kind := range []string{amqptest.Classic, amqptest.Quorum} {
		b.Run(kind, func(b *testing.B) { benchRaw(b, kind) })
	}
}

func benchRaw(b *testing.B, kind string) {
	url := amqptest.VHost(b)
	benchQueue(b, url, kind)
	conn, err := amqp.Dial(url)
	must(b, err)
	defer conn.Close()
	ch, err := conn.Channel()
	must(b, err)
	must(b, ch.Confirm(false))
	body := make([]byte, 1024)
	window := make(chan *amqp.DeferredConfirmation, benchWindow)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for dc := range window {
			if !dc.Wait() {
				b.Error("nack")
			}
		}
	}()
	b.ResetTimer()
	for range b.N {
		dc, err := ch.PublishWithDeferredConfirm("ex", "k", true, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, Body: body, MessageId: model.NewID(),
		})
		must(b, err)
		window <- dc
	}
	close(window)
	<-done
	report(b)
}

// BenchmarkSender is the engine with the same window.
func BenchmarkSender(b *testing.B) {
	for _, kind := range []string{amqptest.Classic, amqptest.Quorum} {
		for _, channels := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/%dch", kind, channels), func(b *testing.B) { benchSender(b, kind, channels) })
		}
	}
}

type benchHandler chan struct{}

func (h benchHandler) Done(o model.Outcome) {
	if o.Kind != model.Acked {
		panic(o.String())
	}
	h <- struct{}{}
}
func (benchHandler) LateAck() {}

func benchSender(b *testing.B, kind string, channels int) {
	url := amqptest.VHost(b)
	benchQueue(b, url, kind)
	cfg := configFor(b, url)
	cfg.Window, cfg.Channels = benchWindow, channels
	s := open(b, cfg)
	body := make([]byte, 1024)
	h := make(benchHandler, b.N)
	ctx := b.Context()
	b.ResetTimer()
	for range b.N {
		must(b, s.Reserve(ctx, 1, 1024))
		s.Send(confirms.Send{
			Message: &model.Message{ID: model.NewID(), Exchange: "ex", RoutingKey: "k", Body: body},
			Since:   time.Now(), Within: time.Minute, Handler: h,
		})
	}
	for range b.N {
		<-h
	}
	report(b)
}

func benchQueue(b *testing.B, url, kind string) {
	c := amqptest.Connect(b, url)
	must(b, c.Exchange("ex", "direct", nil), c.Queue(amqptest.QueueSpec{Name: "q", Type: kind}), c.Bind("q", "ex", "k"))
}

func report(b *testing.B) {
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}
