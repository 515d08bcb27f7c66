package metrics

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/model"
)

// consumerMetrics are those of consumers.
type consumerMetrics struct {
	deliveries, dead, attempts *prometheus.CounterVec
	calls, effect, recovery    *prometheus.HistogramVec
	state                      *prometheus.GaugeVec
	stuck                      *prometheus.Desc
	figures                    []figure[consumer.Stats]
	steps                      []stepFigure
}

func newConsumerMetrics() consumerMetrics {
	const queue = "queue"
	long := []float64{.01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600}
	duration := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: name, Help: help, Buckets: buckets,
		}, append([]string{queue}, labels...))
	}
	return consumerMetrics{
		deliveries: counters("consumer_deliveries_total", "Deliveries by what became of them.", queue, "result"),
		dead:       counters("consumer_dead_letters_total", "Messages given up, by cause.", queue, "cause"),
		attempts: counters("consumer_handled_total", "Messages handled, by the attempt that succeeded.", queue,
			"attempt"),
		calls: duration("consumer_call_duration_seconds", "Handler calls, by their answer.",
			[]float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60}, "answer"),
		effect: duration("consumer_effect_duration_seconds",
			"From the publisher's storing or stamping of a message to its handling.", long),
		recovery: duration("consumer_recovery_duration_seconds",
			"From a message's first failure to its handling.", long),
		state: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "consumer_state", Help: "What the queue's consumer does: 1 for its state.",
		}, []string{queue, "state"}),
		stuck: describe("consumer_stuck", "What copies need and is missing, full or refused: 1.", queue, "target"),
		figures: []figure[consumer.Stats]{
			gauge(queue, "consumer_held", "Deliveries that are not settled.",
				func(s consumer.Stats) float64 { return float64(s.Held) }),
			gauge(queue, "consumer_in_flight", "Handler calls at the moment.",
				func(s consumer.Stats) float64 { return float64(s.InFlight) }),
			counter(queue, "consumer_copies_failed_total", "Tries to send a copy that were not confirmed.",
				func(s consumer.Stats) float64 { return float64(s.CopiesFailed) }),
		},
		steps: []stepFigure{
			step("oldest_seconds", "How long the oldest message has been in the step, at least.",
				func(s consumer.StepStats) float64 { return s.Oldest.Seconds() }),
			step("length_seconds", "How long a message should be in the step.",
				func(s consumer.StepStats) float64 { return s.Step.Seconds() }),
			step("messages", "Messages in the step, those that are being forwarded too.",
				func(s consumer.StepStats) float64 { return float64(s.Messages) }),
			step("forwarding", "Messages whose step is over and that the work queue has not taken.",
				func(s consumer.StepStats) float64 { return float64(s.Forwarding) }),
		},
	}
}

// stepFigure is a gauge of a ladder's step.
type stepFigure struct {
	desc  *prometheus.Desc
	value func(consumer.StepStats) float64
}

func step(name, help string, value func(consumer.StepStats) float64) stepFigure {
	return stepFigure{desc: describe("consumer_step_"+name, help, "queue", "step"), value: value}
}

// describe tells what is collected with labels besides the queue's.
func (c *consumerMetrics) describe(to chan<- *prometheus.Desc) {
	to <- c.stuck
	for _, f := range c.figures {
		to <- f.desc
	}
	for _, f := range c.steps {
		to <- f.desc
	}
}

func (c *consumerMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{c.deliveries, c.dead, c.attempts, c.calls, c.effect, c.recovery, c.state}
}

// NewConsumer is consumer.New with metrics. Observers in cfg are called as well. Of two consumers of one queue in a
// process the gauges show the later one.
func (m *Metrics) NewConsumer(cfg consumer.Config) (*consumer.Consumer, error) {
	cfg.Observers = append(slices.Clone(cfg.Observers), m.consumer.observer())
	c, err := consumer.New(cfg)
	if err != nil {
		return nil, err
	}
	for _, h := range c.Health() {
		m.consumer.begin(h.Queue)
		m.consumer.stateChanged(h)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.consumers = append(m.consumers, c)
	return c, nil
}

// begin makes the series whose first increase must be seen: a counter that begins at 1 shows none.
func (c *consumerMetrics) begin(queue string) {
	for r := consumer.Handled; r <= consumer.Recounted; r++ {
		c.deliveries.WithLabelValues(label(queue), r.String())
	}
	for _, cause := range [...]string{model.CauseExhausted, model.CausePermanent, model.CauseCrashed} {
		c.dead.WithLabelValues(label(queue), cause)
	}
}

func (c *consumerMetrics) observer() consumer.Observer {
	return consumer.Observer{
		Settled: c.settled,
		Answered: func(queue, answer string, elapsed time.Duration) {
			c.calls.WithLabelValues(label(queue), answer).Observe(elapsed.Seconds())
		},
		StateChanged: c.stateChanged,
	}
}

func (c *consumerMetrics) settled(e consumer.Event) {
	queue := label(e.Queue)
	c.deliveries.WithLabelValues(queue, e.Result.String()).Inc()
	switch e.Result {
	case consumer.DeadLettered:
		c.dead.WithLabelValues(queue, e.Cause).Inc()
	case consumer.Handled:
		c.attempts.WithLabelValues(queue, strconv.Itoa(min(e.Attempt, maxAttemptLabel))).Inc()
		if e.EventAge > 0 {
			c.effect.WithLabelValues(queue).Observe(e.EventAge.Seconds())
		}
		if e.SinceFirstFailure > 0 {
			c.recovery.WithLabelValues(queue).Observe(e.SinceFirstFailure.Seconds())
		}
	default: // counted
	}
}

// maxAttemptLabel bounds the series of attempts.
const maxAttemptLabel = 32

func (c *consumerMetrics) stateChanged(h consumer.QueueHealth) {
	for _, s := range [...]consumer.State{
		consumer.StateConsuming, consumer.StateConnecting, consumer.StateMissing, consumer.StateUnavailable,
		consumer.StateStuck, consumer.StatePaused, consumer.StateStopped,
	} {
		c.state.WithLabelValues(label(h.Queue), string(s)).Set(boolean(s == h.State))
	}
}

// collect needs the lock of m. A queue is shown once.
func (c *consumerMetrics) collect(to chan<- prometheus.Metric, all []*consumer.Consumer) {
	last := map[string]consumer.Stats{}
	for _, one := range all {
		for _, s := range one.Stats() {
			last[s.Queue] = s
		}
	}
	for _, s := range last {
		c.collectQueue(to, s)
	}
}

func (c *consumerMetrics) collectQueue(to chan<- prometheus.Metric, s consumer.Stats) {
	queue := label(s.Queue)
	collectFigures(to, c.figures, queue, s)
	for _, target := range s.Stuck {
		to <- prometheus.MustNewConstMetric(c.stuck, prometheus.GaugeValue, 1, queue, label(target))
	}
	for _, one := range s.Steps {
		for _, f := range c.steps {
			to <- prometheus.MustNewConstMetric(f.desc, prometheus.GaugeValue, f.value(one), queue,
				model.StepName(one.Step))
		}
	}
}
