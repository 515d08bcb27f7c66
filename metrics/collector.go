package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/transmsg/transmsg/collector"
)

// newCollectorFigures are those of collectors of dead letters.
func newCollectorFigures() []figure[collector.State] {
	const queue = "queue"
	return []figure[collector.State]{
		gauge(queue, "collector_collecting", "Dead letters of the queue are collected: 1 or 0.",
			func(s collector.State) float64 { return boolean(s.Reason == "") }),
		gauge(queue, "collector_held", "Dead letters in memory.",
			func(s collector.State) float64 { return float64(s.Held) }),
		counter(queue, "collector_stored_total", "Dead letters stored.",
			func(s collector.State) float64 { return float64(s.Collected) }),
		counter(queue, "collector_aside_total", "Dead letters that cannot be stored, moved to the uncollectable queue.",
			func(s collector.State) float64 { return float64(s.Aside) }),
		counter(queue, "collector_failures_total", "Tries to store or to move dead letters that came to nothing.",
			func(s collector.State) float64 { return float64(s.Failed) }),
	}
}

// NewCollector is collector.New with metrics. A queue is shown once: the later collector's.
func (m *Metrics) NewCollector(cfg collector.Config) (*collector.Collector, error) {
	c, err := collector.New(cfg)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.letters = append(m.letters, c)
	return c, nil
}

// collectLetters needs the lock of m.
func (m *Metrics) collectLetters(to chan<- prometheus.Metric) {
	last := map[string]collector.State{}
	for _, c := range m.letters {
		for _, s := range c.States() {
			last[s.Queue] = s
		}
	}
	for queue, s := range last {
		collectFigures(to, m.letterFigures, label(queue), s)
	}
}
