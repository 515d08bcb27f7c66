package metrics

import (
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

// publisherMetrics are those of the publishers.
type publisherMetrics struct {
	duration *prometheus.HistogramVec
	figures  []figure[publisher.Stats]
}

func newPublisherMetrics() publisherMetrics {
	const service = "service"
	return publisherMetrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "publish_duration_seconds",
			Help:    "How long the store took for one call that publishes.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{service, "result"}),
		figures: []figure[publisher.Stats]{
			gauge(service, "publisher_in_flight", "Calls in progress and sends without an outcome.",
				func(s publisher.Stats) float64 { return float64(s.InFlight) }),
			gauge(service, "publisher_unsettled", "Outcomes not yet written to the store.",
				func(s publisher.Stats) float64 { return float64(s.Unsettled) }),
			gauge(service, "publisher_oldest_due_seconds",
				"How long the service's oldest due row has been due, looked at once a minute.",
				func(s publisher.Stats) float64 { return s.OldestDue.Seconds() }),
		},
	}
}

func (p *publisherMetrics) collect(to chan<- prometheus.Metric, service string, s publisher.Stats) {
	collectFigures(to, p.figures, label(service), s)
}

// OpenPublisher is publisher.Open with metrics. Observers in cfg are called as well.
// Of two publishers of one service the gauges show the later one.
func (m *Metrics) OpenPublisher(cfg publisher.Config) (*publisher.Publisher, error) {
	cfg.Observers = append(slices.Clone(cfg.Observers), m.publisherObserver(cfg.Service))
	p, err := publisher.Open(cfg)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.publishers[cfg.Service] = p
	return p, nil
}

func (m *Metrics) publisherObserver(service string) publisher.Observer {
	service = label(service)
	restored := m.shared.restored.WithLabelValues(rolePublisher, service)
	return publisher.Observer{
		Outcome: func(_ string, out model.Outcome, _ time.Duration) {
			m.shared.outcome(rolePublisher, service, out)
		},
		Published: func(elapsed time.Duration, err error) {
			m.publisher.duration.WithLabelValues(service, publishResult(err)).Observe(elapsed.Seconds())
		},
		Restored: func(string) { restored.Inc() },
		StoreError: m.shared.storeErrorsFor(rolePublisher, "delete", "settle", "restore", "late-ack", "read-back",
			"renew", "oldest-due"),
	}
}

func publishResult(err error) string {
	switch {
	case err == nil:
		return "stored"
	case errors.Is(err, model.ErrConflict), errors.Is(err, model.ErrDead):
		return "refused"
	case errors.Is(err, model.ErrTxMustRollBack):
		return "rolled-back"
	case errors.Is(err, model.ErrNotStored):
		return "not-stored"
	default:
		return "unknown"
	}
}
