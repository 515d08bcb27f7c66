package metrics_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/metrics"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/store/gormstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var _ metrics.Store = (*gormstore.Store)(nil)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// service is a publisher and a compensator with metrics on a real broker that has the
// exchange ex, with one queue bound by key k.
type service struct {
	metrics *metrics.Metrics
	pub     *publisher.Publisher
	sender  *confirms.Sender
	comp    *compensator.Compensator
}

func openService(t *testing.T) *service {
	t.Helper()
	url := amqptest.VHost(t)
	client := amqptest.Connect(t, url)
	must(t, client.Exchange("ex", amqp.ExchangeDirect, nil),
		client.Queue(amqptest.QueueSpec{Name: "q"}), client.Bind("q", "ex", "k"))
	store, err := anystore.Migrated(t.Context(), "sqlite::memory:", gormstore.Options{})
	must(t, err)
	s := &service{}
	s.metrics, err = metrics.New(metrics.Config{Store: store, RowsEvery: time.Second})
	must(t, err)
	cfg, err := confirms.ParseURL(url)
	must(t, err)
	cfg.Name, cfg.Window, cfg.Channels = "relay", 50, 2
	s.sender, err = s.metrics.OpenSender(cfg)
	must(t, err)
	s.pub, err = s.metrics.OpenPublisher(publisher.Config{Service: "orders", Store: store, Sender: s.sender})
	must(t, err)
	s.comp, err = compensator.New(compensator.Config{
		Observers: []compensator.Observer{s.metrics.CompensatorObserver()},
		Store:     store, Sender: s.sender, Interval: 20 * time.Millisecond,
		Policy: model.Policy{
			MaxAttempts: 2, MinDeadAge: model.None, BaseDelay: 10 * time.Millisecond, MaxDelay: 20 * time.Millisecond,
		},
	})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(s.pub.Close(ctx), s.sender.Close(ctx), store.Close()); err != nil {
			t.Error(err)
		}
	})
	must(t, s.sender.WaitReady(t.Context()))
	return s
}

// show returns the text of one scrape.
func show(t *testing.T, handler http.Handler) string {
	t.Helper()
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(answer.Result().Body)
	must(t, err)
	if answer.Code != http.StatusOK {
		t.Fatalf("scrape: %d\n%s", answer.Code, body)
	}
	return string(body)
}

// With broker and database down a scrape still succeeds, says so, and shows no secret.
func TestScrapeWithEverythingDown(t *testing.T) {
	t.Parallel()
	const canary = "canary-password"
	store, err := anystore.Migrated(t.Context(), "sqlite::memory:", gormstore.Options{})
	must(t, err)
	must(t, store.Close())
	m, err := metrics.New(metrics.Config{Store: store})
	must(t, err)
	cfg, err := confirms.ParseURL("amqp://user:" + canary + "@127.0.0.1:1/") // nothing listens there
	must(t, err)
	sender, err := m.OpenSender(cfg)
	must(t, err)
	text := "\n" + show(t, m.Handler())
	for _, want := range []string{
		`transmsg_rows_up 0`,
		`transmsg_rows_read_timestamp_seconds 0`,
		`transmsg_sender_connected{sender="transmsg"} 0`,
		`transmsg_sender_ready{sender="transmsg"} 0`,
		`transmsg_sender_connections_total{sender="transmsg"} 0`,
		`transmsg_sender_window{sender="transmsg"} 1000`,
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("%s is not shown:\n%s", want, text)
		}
	}
	if strings.Contains(text, canary) {
		t.Error("the password is shown")
	}
	must(t, sender.Close(t.Context()))
}

// A message that is delivered and one that no queue takes, from the call to DEAD, as
// Prometheus sees them.
func TestScrapeOfARealService(t *testing.T) {
	t.Parallel()
	s := openService(t)
	handler := s.metrics.Handler()
	for _, to := range [][2]string{{"ex", "k"}, {"ex", "nobody"}, {"nowhere", "k"}} {
		r, err := s.pub.Publish(t.Context(), model.Message{Exchange: to[0], RoutingKey: to[1], Body: []byte("x")})
		must(t, err)
		_, err = r.Wait(t.Context())
		must(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.comp.Run(ctx) }()
	wants := []string{
		`transmsg_outcomes_total{code="",kind="acked",role="publisher",service="orders"} 1`,
		`transmsg_outcomes_total{code="312",kind="returned",role="publisher",service="orders"} 1`,
		`transmsg_outcomes_total{code="312",kind="returned",role="compensator",service="orders"} 1`,
		`transmsg_publish_duration_seconds_count{result="stored",service="orders"} 3`,
		`transmsg_confirm_duration_seconds_count{sender="relay"} 3`,
		`transmsg_dead_total{code="312",service="orders"} 1`,
		`transmsg_dead_total{code="404",service="orders"} 1`,
		`transmsg_breaker_open{exchange="nowhere"} 1`,
		`transmsg_alerts_total{result="delivered"} 3`,
		// How often the refused row is claimed before its exchange may be probed depends on the machine.
		`transmsg_claimed_rows_total `,
		`transmsg_rows{service="orders",status="dead"} 2`,
		`transmsg_rows{service="orders",status="ready"} 0`,
		`transmsg_rows_up 1`,
		`transmsg_sender_connected{sender="relay"} 1`,
		`transmsg_sender_ready{sender="relay"} 1`,
		`transmsg_sender_connections_total{sender="relay"} 1`,
		`transmsg_sender_window{sender="relay"} 100`,
		`transmsg_sender_pending_limit{sender="relay"} 8192`,
		`transmsg_publisher_in_flight{service="orders"} 0`,
		"go_goroutines ",
		"process_start_time_seconds ",
	}
	var missing []string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		text := "\n" + show(t, handler)
		missing = nil
		for _, want := range wants {
			if !strings.Contains(text, "\n"+want) {
				missing = append(missing, want)
			}
		}
		if missing == nil {
			break
		}
		select {
		case <-t.Context().Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	if missing != nil {
		t.Errorf("not shown within a minute:\n%s\nthe last scrape:\n%s", strings.Join(missing, "\n"), show(t, handler))
	}
	cancel()
	must(t, <-ran)
}
