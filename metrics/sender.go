package metrics

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
)

// senderMetrics are those of the AMQP engine.
type senderMetrics struct {
	answered   *prometheus.HistogramVec
	exceptions *prometheus.CounterVec
	figures    []figure[senderFigures]
}

// senderFigures are a sender's Stats with its bounds.
type senderFigures struct {
	confirms.Stats
	window, limit int
}

// watchedSender is a sender with its bounds.
type watchedSender struct {
	sender        *confirms.Sender
	window, limit int
}

func (w watchedSender) figures() senderFigures {
	return senderFigures{Stats: w.sender.Stats(), window: w.window, limit: w.limit}
}

func newSenderMetrics() senderMetrics {
	const sender = "sender"
	type figures = senderFigures
	return senderMetrics{
		answered: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "confirm_duration_seconds",
			Help:    "From the write of a message to the broker's ack, nack or return.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 30},
		}, []string{sender}),
		exceptions: counters("sender_channel_exceptions_total", "Channels that the broker closed, by AMQP code.",
			sender, "code"),
		figures: []figure[figures]{
			gauge(sender, "sender_connected", "Whether there is a connection to the broker.",
				func(s figures) float64 { return boolean(s.Connected) }),
			gauge(sender, "sender_ready", "Whether the sender takes new work.",
				func(s figures) float64 { return boolean(s.Ready) }),
			gauge(sender, "sender_blocked", "Whether the broker blocks the connection.",
				func(s figures) float64 { return boolean(s.Blocked) }),
			counter(sender, "sender_connections_total", "Connections made.",
				func(s figures) float64 { return float64(s.Generation) }),
			gauge(sender, "sender_in_flight", "Messages on the wire and unconfirmed.",
				func(s figures) float64 { return float64(s.InFlight) }),
			gauge(sender, "sender_window", "The most messages on the wire and unconfirmed.",
				func(s figures) float64 { return float64(s.window) }),
			gauge(sender, "sender_timed_out", "Messages on the wire whose confirm is overdue.",
				func(s figures) float64 { return float64(s.TimedOut) }),
			counter(sender, "sender_late_acks_total", "Messages acked after they had timed out.",
				func(s figures) float64 { return float64(s.LateAcks) }),
			counter(sender, "sender_overdue_total", "Messages without a confirm in time; sent again, perhaps copies.",
				func(s figures) float64 { return float64(s.Overdue) }),
			gauge(sender, "sender_silent_routes", "Routes without confirms, whose messages wait.",
				func(s figures) float64 { return float64(s.SilentRoutes) }),
			gauge(sender, "sender_pending", "Messages reserved, or sent and not done.",
				func(s figures) float64 { return float64(s.Pending) }),
			gauge(sender, "sender_pending_limit", "The most messages reserved, or sent and not done.",
				func(s figures) float64 { return float64(s.limit) }),
			gauge(sender, "sender_pending_bytes", "Body bytes of the messages reserved, or sent and not done.",
				func(s figures) float64 { return float64(s.PendingBytes) }),
		},
	}
}

func (s *senderMetrics) collect(to chan<- prometheus.Metric, name string, f senderFigures) {
	collectFigures(to, s.figures, label(name), f)
}

// OpenSender is confirms.Open with metrics. Observers in cfg are called as well. Name
// tells several senders of one process apart: of two with one name the gauges show the
// later one.
func (m *Metrics) OpenSender(cfg confirms.Config) (*confirms.Sender, error) {
	name := cmp.Or(cfg.Name, "transmsg")
	cfg.Observers = append(slices.Clone(cfg.Observers), m.senderObserver(label(name)))
	s, err := confirms.Open(cfg)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.senders[name] = watchedSender{
		sender: s,
		window: cmp.Or(cfg.Window, confirms.DefaultWindow) * cmp.Or(cfg.Channels, confirms.DefaultChannels),
		limit:  cmp.Or(cfg.MaxPending, confirms.DefaultMaxPending),
	}
	return s, nil
}

func (m *Metrics) senderObserver(name string) confirms.Observer {
	answered := m.sender.answered.WithLabelValues(name)
	return confirms.Observer{
		ChannelClosed: func(code int, _ string) {
			m.sender.exceptions.WithLabelValues(name, strconv.Itoa(code)).Inc()
		},
		Answered: func(_ model.OutcomeKind, elapsed time.Duration) { answered.Observe(elapsed.Seconds()) },
	}
}
