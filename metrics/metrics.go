package metrics

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/transmsg/transmsg/collector"
	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

// Defaults and bounds of [Config].
const (
	DefaultRowsEvery   = 30 * time.Second
	DefaultRowsTimeout = 5 * time.Second
	MinRowsEvery       = time.Second
	MinRowsTimeout     = 10 * time.Millisecond

	// maxScrapes bounds the scrapes that Handler serves at a time.
	maxScrapes = 4
)

// Values of the label role.
const (
	rolePublisher   = "publisher"
	roleCompensator = "compensator"
)

// Store is what the figures of the rows are read from; store/gormstore has it.
type Store interface {
	Stats(ctx context.Context, service string) ([]model.Stats, error)
}

// Config configures a [Metrics]. The zero value has no figures of rows.
type Config struct {
	// Store is asked for the figures of the rows. Nil means none. One process per
	// database is enough; more do no harm.
	Store Store
	// Service restricts these figures to one service. Empty means all.
	Service string
	// RowsEvery is how often Store is asked at most, however often the metrics are
	// scraped: it counts the table's index. At least 1 s. Defaults to 30 s.
	RowsEvery time.Duration
	// RowsTimeout bounds the asking, and so how long the store can hold up a scrape. Keep it
	// below the scrape timeout (10 s in Prometheus). 10 ms to RowsEvery. Defaults to 5 s, or
	// to RowsEvery when that is shorter.
	RowsTimeout time.Duration
	// Logger receives the store's errors. Nil is slog.Default().
	Logger *slog.Logger
}

// Metrics is the collector of all metrics of the package. Make one per process with
// [New], register it once, and open what it watches with its methods. It is safe for
// concurrent use, starts no goroutine and needs no closing.
type Metrics struct {
	shared      sharedMetrics
	publisher   publisherMetrics
	sender      senderMetrics
	compensator compensatorMetrics
	consumer    consumerMetrics
	rows        *rows // nil without a store

	mu         sync.Mutex
	senders    map[string]watchedSender
	publishers map[string]*publisher.Publisher
	consumers  []*consumer.Consumer
	letters    []*collector.Collector

	letterFigures []figure[collector.State]
}

var _ prometheus.Collector = (*Metrics)(nil)

// sharedMetrics are those of both roles.
type sharedMetrics struct {
	outcomes    *prometheus.CounterVec
	restored    *prometheus.CounterVec
	storeErrors *prometheus.CounterVec
}

// New returns the metrics, or an error that names the field of cfg, its value and its
// bound.
func New(cfg Config) (*Metrics, error) {
	if cfg.RowsEvery == 0 {
		cfg.RowsEvery = DefaultRowsEvery
	}
	if cfg.RowsTimeout == 0 {
		cfg.RowsTimeout = min(DefaultRowsTimeout, cfg.RowsEvery)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	switch {
	case cfg.RowsEvery < MinRowsEvery:
		return nil, fmt.Errorf("metrics: config: RowsEvery %v must be at least %v", cfg.RowsEvery, MinRowsEvery)
	case cfg.RowsTimeout < MinRowsTimeout || cfg.RowsTimeout > cfg.RowsEvery:
		return nil, fmt.Errorf("metrics: config: RowsTimeout %v must be %v to RowsEvery %v",
			cfg.RowsTimeout, MinRowsTimeout, cfg.RowsEvery)
	}
	m := &Metrics{
		shared: sharedMetrics{
			outcomes: counters("outcomes_total", "Sends by what became of them.", "role", "service", "kind", "code"),
			restored: counters("restored_rows_total", "Rows found gone and inserted again.", "role", "service"),
			storeErrors: counters("store_errors_total", "Failed reads and writes of the store; they are tried again.",
				"role", "operation"),
		},
		publisher: newPublisherMetrics(), sender: newSenderMetrics(), compensator: newCompensatorMetrics(),
		consumer: newConsumerMetrics(), letterFigures: newCollectorFigures(),
		senders: map[string]watchedSender{}, publishers: map[string]*publisher.Publisher{},
	}
	if cfg.Store != nil {
		m.rows = newRows(cfg)
	}
	return m, nil
}

// Handler serves m together with the Go runtime's and the process's own metrics, for
// whoever has no registry. It answers also while the store or the broker is down, then
// within Config.RowsTimeout.
func (m *Metrics) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(m, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes,
	})
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(to)
	}
	for _, f := range m.publisher.figures {
		to <- f.desc
	}
	for _, f := range m.sender.figures {
		to <- f.desc
	}
	m.consumer.describe(to)
	for _, f := range m.letterFigures {
		to <- f.desc
	}
	if m.rows != nil {
		m.rows.describe(to)
	}
}

// Collect implements [prometheus.Collector]. It does I/O when the figures of the rows are
// older than Config.RowsEvery.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(to)
	}
	m.mu.Lock()
	for service, p := range m.publishers {
		m.publisher.collect(to, service, p.Stats())
	}
	for name, s := range m.senders {
		m.sender.collect(to, name, s.figures())
	}
	m.consumer.collect(to, m.consumers)
	m.collectLetters(to)
	m.mu.Unlock()
	if m.rows != nil {
		m.rows.collect(to)
	}
}

// collectors are the metrics that keep their own values.
func (m *Metrics) collectors() []prometheus.Collector {
	all := []prometheus.Collector{
		m.shared.outcomes, m.shared.restored, m.shared.storeErrors, m.publisher.duration,
		m.sender.answered, m.sender.exceptions,
	}
	all = append(all, m.consumer.collectors()...)
	return append(all, m.compensator.collectors()...)
}

// outcome counts one outcome.
func (s *sharedMetrics) outcome(role, service string, o model.Outcome) {
	s.outcomes.WithLabelValues(role, service, o.Kind.String(), label(string(o.Code))).Inc()
}

// storeErrorsFor returns the hook of a role, with a zero for each operation: a rate needs
// a value before the first error.
func (s *sharedMetrics) storeErrorsFor(role string, operations ...string) func(op string, err error) {
	for _, op := range operations {
		s.storeErrors.WithLabelValues(role, op)
	}
	return func(op string, _ error) { s.storeErrors.WithLabelValues(role, op).Inc() }
}

// label makes s fit for a label: Prometheus panics on what is not UTF-8, and a row written
// by SQL may hold anything.
func label(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

const namespace = "transmsg"

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

// figure is a metric whose value is read from a snapshot S at each scrape.
type figure[S any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(S) float64
}

func gauge[S any](label, name, help string, value func(S) float64) figure[S] {
	return figure[S]{desc: describe(name, help, label), kind: prometheus.GaugeValue, value: value}
}

func counter[S any](label, name, help string, value func(S) float64) figure[S] {
	return figure[S]{desc: describe(name, help, label), kind: prometheus.CounterValue, value: value}
}

func collectFigures[S any](to chan<- prometheus.Metric, figures []figure[S], label string, snapshot S) {
	for _, f := range figures {
		to <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(snapshot), label)
	}
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
