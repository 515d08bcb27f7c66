package metrics

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/transmsg/transmsg/model"
)

// rows are the figures of the table, kept between reads: counting it at every scrape of
// every replica would be a load of its own.
type rows struct {
	cfg Config
	log *slog.Logger

	count, due, exhausted, oldestDue, oldestReady, up, readAt *prometheus.Desc

	mu     sync.Mutex // held during a read: scrapes that come meanwhile share its answer
	tried  time.Time
	read   time.Time
	failed bool
	stats  map[string]model.Stats // every service ever seen, so that a figure falls to 0 instead of vanishing
}

func newRows(cfg Config) *rows {
	const service = "service"
	return &rows{
		cfg: cfg, log: cfg.Logger, stats: map[string]model.Stats{},
		count:     describe("rows", "Rows of the table.", service, "status"),
		due:       describe("rows_due", "READY rows that are due.", service),
		exhausted: describe("rows_exhausted", "READY rows whose attempts are used up.", service),
		oldestDue: describe("oldest_due_seconds", "How long the oldest due row has been due.", service),
		oldestReady: describe("oldest_ready_seconds", "Age of the oldest READY row not waiting for its NotBefore.",
			service),
		up: describe("rows_up", "Whether the last read of the table's figures succeeded."),
		readAt: describe("rows_read_timestamp_seconds",
			"When the table's figures were last read with success, Unix time; 0 is never."),
	}
}

func (r *rows) describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{r.count, r.due, r.exhausted, r.oldestDue, r.oldestReady, r.up, r.readAt} {
		to <- d
	}
}

func (r *rows) collect(to chan<- prometheus.Metric) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tried.IsZero() || time.Since(r.tried) >= r.cfg.RowsEvery {
		r.refresh()
		r.tried = time.Now() // a store that answers slowly still has its pause
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for service, st := range r.stats {
		gauge(r.count, float64(st.Ready), service, "ready")
		gauge(r.count, float64(st.Dead), service, "dead")
		gauge(r.due, float64(st.Due), service)
		gauge(r.exhausted, float64(st.Exhausted), service)
		gauge(r.oldestDue, st.OldestDue.Seconds(), service)
		gauge(r.oldestReady, st.OldestReady.Seconds(), service)
	}
	var at float64
	if !r.read.IsZero() {
		at = float64(r.read.UnixMilli()) / 1000
	}
	gauge(r.up, boolean(!r.failed))
	gauge(r.readAt, at)
}

// refresh asks the store. When it does not answer, the figures stay as they were.
func (r *rows) refresh() {
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.RowsTimeout)
	defer cancel()
	stats, err := r.cfg.Store.Stats(ctx, r.cfg.Service)
	r.failed = err != nil
	if err != nil {
		r.log.Warn("read the figures of the rows", "error", err)
		return
	}
	r.read = time.Now()
	for service := range r.stats {
		r.stats[service] = model.Stats{}
	}
	for _, st := range stats {
		r.stats[label(st.Service)] = st
	}
}
