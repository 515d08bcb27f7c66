package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/transmsg/transmsg/consumer"
)

// ConsumerGauges collects what is read from a queue's Stats.
type ConsumerGauges struct{ Stats consumer.Stats }

// Describe implements prometheus.Collector.
func (g ConsumerGauges) Describe(to chan<- *prometheus.Desc) {
	c := newConsumerMetrics()
	c.describe(to)
}

// Collect implements prometheus.Collector.
func (g ConsumerGauges) Collect(to chan<- prometheus.Metric) {
	c := newConsumerMetrics()
	c.collectQueue(to, g.Stats)
}

// What an observer counts is tested by calling it: the packages that call it test when they do.
var (
	PublisherObserver = (*Metrics).publisherObserver
	SenderObserver    = (*Metrics).senderObserver
)
