package consumer_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/internal/amqptest"
)

const (
	benchPrefetch = 500
	benchHandlers = 32
)

// BenchmarkConsume compares the consumer with the client library alone, each acking every message. On a machine that
// others share the processor time (cpu-us/op) tells more than the elapsed.
func BenchmarkConsume(b *testing.B) {
	for _, bb := range []struct {
		name string
		run  func(b *testing.B, url string)
	}{{"raw", benchRaw}, {"consumer", benchConsumer}} {
		b.Run(bb.name, func(b *testing.B) {
			url := amqptest.VHost(b)
			client := amqptest.Connect(b, url)
			if err := client.Queue(amqptest.QueueSpec{Name: workQueue, Type: amqptest.Quorum}); err != nil {
				b.Fatal(err)
			}
			fillQueue(b, url)
			b.ResetTimer()
			begin := processorTime(b)
			bb.run(b, url)
			b.StopTimer()
			b.ReportMetric(float64((processorTime(b)-begin).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// fillQueue publishes b.N messages of 1 KiB.
func fillQueue(b *testing.B, url string) {
	b.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		b.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		b.Fatal(err)
	}
	var last *amqp.DeferredConfirmation
	body := make([]byte, 1024)
	for i := range b.N {
		m := amqp.Publishing{MessageId: fmt.Sprintf("m%d", i), DeliveryMode: amqp.Persistent, Body: body}
		dc, err := ch.PublishWithDeferredConfirmWithContext(b.Context(), "", workQueue, false, false, m)
		if err != nil {
			b.Fatal(err)
		}
		if i%1000 == 999 {
			dc.Wait()
		}
		last = dc
	}
	last.Wait()
}

func benchRaw(b *testing.B, url string) {
	b.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		b.Fatal(err)
	}
	if err := ch.Qos(benchPrefetch, 0, false); err != nil {
		b.Fatal(err)
	}
	deliveries, err := ch.Consume(workQueue, "", false, false, false, false, nil)
	if err != nil {
		b.Fatal(err)
	}
	for range b.N {
		d := <-deliveries
		if err := d.Ack(false); err != nil {
			b.Fatal(err)
		}
	}
}

func benchConsumer(b *testing.B, url string) {
	b.Helper()
	sending, err := confirms.ParseURL(url)
	if err != nil {
		b.Fatal(err)
	}
	sending.Logger = slog.New(slog.DiscardHandler)
	sender, err := confirms.Open(sending)
	if err != nil {
		b.Fatal(err)
	}
	defer sender.Close(context.WithoutCancel(b.Context()))
	cfg, err := consumer.ParseURL(url)
	if err != nil {
		b.Fatal(err)
	}
	var handled atomic.Int64
	all := make(chan struct{})
	cfg.Sender, cfg.Logger = sender, sending.Logger
	cfg.Observers = []consumer.Observer{{Settled: func(consumer.Event) {
		if handled.Add(1) == int64(b.N) {
			close(all)
		}
	}}}
	cfg.Queues = []consumer.Queue{{
		Name: workQueue, DeadLetterExchange: deadName, Prefetch: benchPrefetch, Handlers: benchHandlers,
		Deadline: 10 * time.Second,
		Handler:  func(context.Context, *consumer.Message) error { return nil },
	}}
	c, err := consumer.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	<-all
	b.StopTimer()
	stop()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}
