package metrics_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/metrics"
)

type noSender struct{}

func (noSender) Reserve(context.Context, int, int64) error { return nil }
func (noSender) Send(confirms.Send)                        {}

// A consumer's metrics follow its observer and its Stats.
func TestConsumerMetrics(t *testing.T) {
	t.Parallel()
	m, err := metrics.New(metrics.Config{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := consumer.Config{
		Addrs: []string{"127.0.0.1:1"}, Sender: noSender{},
		Credentials: func(context.Context) (string, string, error) { return "u", "p", nil },
		Queues: []consumer.Queue{{
			Name: "q", DeadLetterExchange: "dead",
			Handler: func(context.Context, *consumer.Message) error { return nil },
		}},
	}
	if _, err := m.NewConsumer(cfg); err != nil {
		t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`transmsg_consumer_held{queue="q"} 0`, `transmsg_consumer_copies_failed_total{queue="q"} 0`,
		`transmsg_consumer_state{queue="q",state="stopped"} 1`,
		`transmsg_consumer_state{queue="q",state="consuming"} 0`,
		`transmsg_consumer_dead_letters_total{cause="permanent",queue="q"} 0`, // else the first one is no increase
		`transmsg_consumer_deliveries_total{queue="q",result="recounted"} 0`,
	} {
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("no %s", want)
		}
	}
	for _, unwanted := range []string{"transmsg_consumer_step", "transmsg_consumer_stuck"} {
		if strings.Contains(rec.Body.String(), "\n"+unwanted) {
			t.Errorf("%s is there, though nothing is known or stuck", unwanted)
		}
	}
	if _, err := m.NewConsumer(consumer.Config{}); err == nil {
		t.Error("an empty config was taken")
	}
}

// What is stuck and what waits in the steps has labels besides the queue's.
func TestConsumerStepsAndStuck(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	reg.MustRegister(metrics.ConsumerGauges{Stats: consumer.Stats{
		Queue: "q", Stuck: []string{`queue "q.retry.1s"`, `exchange "dead", routing key "q"`},
		Steps: []consumer.StepStats{{
			Queue: "q.retry.5m", Step: 5 * time.Minute, Messages: 7, Forwarding: 2, Oldest: 400 * time.Second,
		}},
	}})
	rec := httptest.NewRecorder()
	get := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(rec, get)
	for _, want := range []string{
		`transmsg_consumer_step_forwarding{queue="q",step="5m"} 2`,
		`transmsg_consumer_step_length_seconds{queue="q",step="5m"} 300`,
		`transmsg_consumer_step_messages{queue="q",step="5m"} 7`,
		`transmsg_consumer_step_oldest_seconds{queue="q",step="5m"} 400`,
		`transmsg_consumer_stuck{queue="q",target="exchange \"dead\", routing key \"q\""} 1`,
		`transmsg_consumer_stuck{queue="q",target="queue \"q.retry.1s\""} 1`,
	} {
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("no %s in\n%s", want, rec.Body)
		}
	}
}
