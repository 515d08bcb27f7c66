package metrics

import (
	"errors"
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

// OpenPublisher is publisher.Open with metrics. An Observer in cfg is called as well. Of
// two publishers of one service the gauges show the later one.
func (m *Metrics) OpenPublisher(cfg publisher.Config) (*publisher.Publisher, error) {
	cfg.Observer = m.publisherObserver(cfg.Service, cfg.Observer)
	p, err := publisher.Open(cfg)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.publishers[cfg.Service] = p
	return p, nil
}

// publisherObserver counts and calls next.
func (m *Metrics) publisherObserver(service string, next publisher.Observer) publisher.Observer {
	service = label(service)
	storeError := m.shared.storeErrorsFor(rolePublisher, "delete", "settle", "restore", "late-ack", "read-back",
		"renew", "oldest-due")
	restored := m.shared.restored.WithLabelValues(rolePublisher, service)
	o := next
	o.Outcome = func(id string, out model.Outcome, elapsed time.Duration) {
		m.shared.outcome(rolePublisher, service, out)
		if next.Outcome != nil {
			next.Outcome(id, out, elapsed)
		}
	}
	o.Published = func(elapsed time.Duration, err error) {
		m.publisher.duration.WithLabelValues(service, publishResult(err)).Observe(elapsed.Seconds())
		if next.Published != nil {
			next.Published(elapsed, err)
		}
	}
	o.Restored = func(id string) {
		restored.Inc()
		if next.Restored != nil {
			next.Restored(id)
		}
	}
	o.StoreError = func(op string, err error) {
		storeError(op, err)
		if next.StoreError != nil {
			next.StoreError(op, err)
		}
	}
	return o
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
