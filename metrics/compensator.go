package metrics

import (
	"context"
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/model"
)

// Results of runs that began.
const (
	runDrained  = "drained"
	runEarly    = "ended-early"
	runStopped  = "stopped"
	runLockLost = "lock-lost"
)

// Results of alerts.
const (
	alertDelivered = "delivered"
	alertFailed    = "failed"
)

// What is purged, and what the compensator does with the store.
var (
	purges          = []string{"events", "dead", "inbox", "alerts"}
	storeOperations = []string{
		"services", "identity", "claim", "delete", "settle", "restore", "late-ack", "claim-dead", "claim-alerts",
		"groups", "mark-alerted", "mark-alerts", "stats",
		"purge-events", "purge-dead", "purge-inbox", "purge-alerts",
	}
)

// compensatorMetrics are those of the compensator.
type compensatorMetrics struct {
	started     prometheus.Counter
	runs        *prometheus.CounterVec
	duration    prometheus.Histogram
	lockHeld    prometheus.Gauge
	lockService *prometheus.GaugeVec // without labels; no series without a lock service
	claims      prometheus.Counter
	claimedRows prometheus.Counter
	waiting     prometheus.Counter
	breakers    *breakers
	purged      *prometheus.CounterVec
	conflicts   *prometheus.CounterVec
	dead        *prometheus.CounterVec
	alerts      *prometheus.CounterVec
}

func newCompensatorMetrics() compensatorMetrics {
	single := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	}
	return compensatorMetrics{
		started: single("runs_started_total", "Runs that got their lock slot."),
		runs:    counters("runs_total", "Runs by how they ended, or why they did not begin.", "result"),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "run_duration_seconds",
			Help:    "From taking the lock slot to the writing of the run's last outcome.",
			Buckets: []float64{.005, .01, .05, .1, .5, 1, 5, 15, 60, 300, 900, 3600},
		}),
		lockHeld: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "lock_held",
			Help: "Whether this process holds a lock slot: a run is under way.",
		}),
		lockService: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "lock_service_up",
			Help: "Whether the lock service answered at the last try: 0 is running, or pausing, without a lock.",
		}, nil),
		claims:      single("claims_total", "Claim statements."),
		claimedRows: single("claimed_rows_total", "Rows claimed."),
		waiting:     single("waiting_rows_total", "Claimed rows handed back to wait for a probe of their exchange."),
		breakers:    newBreakers(),
		purged:      counters("purged_total", "What was deleted by age, and alerts that count no more.", "what"),
		conflicts: counters("lease_conflicts_total",
			"Outcomes of rows that belonged to somebody else by the time of their writing.", "service"),
		dead:   counters("dead_total", "Rows marked DEAD.", "service", "code"),
		alerts: counters("alerts_total", "Alerts by whether they were delivered, once for each sink.", "result"),
	}
}

func (c *compensatorMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		c.started, c.runs, c.duration, c.lockHeld, c.lockService, c.claims, c.claimedRows, c.waiting, c.breakers.gauge,
		c.purged, c.conflicts, c.dead, c.alerts,
	}
}

// CompensatorObserver returns what counts a compensator's work, for compensator.Config.Observers.
func (m *Metrics) CompensatorObserver() compensator.Observer {
	c := &m.compensator
	c.startAtZero()
	return compensator.Observer{
		RunStart: func() {
			c.started.Inc()
			c.lockHeld.Set(1)
		},
		RunEnd:      c.runEnd,
		LockService: func(answers bool) { c.lockService.WithLabelValues().Set(boolean(answers)) },
		RunSkipped:  func(reason string) { c.runs.WithLabelValues(reason).Inc() },
		Alert: func(_ compensator.Alert, delivered bool) {
			result := alertFailed
			if delivered {
				result = alertDelivered
			}
			c.alerts.WithLabelValues(result).Inc()
		},
		Purged:  func(what string, n int) { c.purged.WithLabelValues(what).Add(float64(n)) },
		Breaker: c.breakers.set,
		Outcome: func(service string, out model.Outcome) {
			m.shared.outcome(roleCompensator, label(service), out)
		},
		Settled: func(row *model.TransMessage, out model.Outcome, status model.Status) {
			if status == model.Dead {
				c.dead.WithLabelValues(label(row.Service), label(string(out.Code))).Inc()
			}
		},
		LeaseConflict: func(service string) { c.conflicts.WithLabelValues(label(service)).Inc() },
		Restored: func(service, _ string) {
			m.shared.restored.WithLabelValues(roleCompensator, label(service)).Inc()
		},
		StoreError: m.shared.storeErrorsFor(roleCompensator, storeOperations...),
	}
}

// startAtZero makes the series: a rate needs a value before the first event.
func (c *compensatorMetrics) startAtZero() {
	for _, result := range []string{
		runDrained, runEarly, runStopped, runLockLost,
		compensator.SkipNotReady, compensator.SkipLocked, compensator.SkipLock,
	} {
		c.runs.WithLabelValues(result)
	}
	for _, result := range []string{alertDelivered, alertFailed} {
		c.alerts.WithLabelValues(result)
	}
	for _, what := range purges {
		c.purged.WithLabelValues(what)
	}
}

func (c *compensatorMetrics) runEnd(f compensator.RunStats) {
	c.lockHeld.Set(0)
	c.runs.WithLabelValues(runResult(f.Cause)).Inc()
	c.duration.Observe(f.Duration.Seconds())
	c.claims.Add(float64(f.Claims))
	c.claimedRows.Add(float64(f.Rows))
	c.waiting.Add(float64(f.Waiting))
}

func runResult(cause error) string {
	switch {
	case cause == nil:
		return runDrained
	case errors.Is(cause, compensator.ErrLockLost):
		return runLockLost
	case errors.Is(cause, context.Canceled):
		return runStopped
	default:
		return runEarly
	}
}

// breakers is what is broken at the moment, by exchange. Topics are counted and not named:
// there may be one for each customer.
type breakers struct {
	gauge *prometheus.GaugeVec

	mu   sync.Mutex
	open map[string]map[string]bool // exchange to topics; "" is the exchange itself
}

func newBreakers() *breakers {
	return &breakers{
		gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "breaker_open",
			Help: "What the broker refuses of an exchange: 1 for itself and 1 for each of its topics.",
		}, []string{"exchange"}),
		open: map[string]map[string]bool{},
	}
}

// set notes one change. The series of an exchange ends with the last of it: there is no end
// to the names of exchanges.
func (b *breakers) set(exchange, topic string, open bool) {
	exchange = label(exchange)
	b.mu.Lock()
	defer b.mu.Unlock()
	topics := b.open[exchange]
	if topics == nil {
		topics = map[string]bool{}
		b.open[exchange] = topics
	}
	if open {
		topics[topic] = true
	} else {
		delete(topics, topic)
	}
	if len(topics) == 0 {
		delete(b.open, exchange)
		b.gauge.DeleteLabelValues(exchange)
		return
	}
	b.gauge.WithLabelValues(exchange).Set(float64(len(topics)))
}
