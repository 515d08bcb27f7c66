package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/transmsg/transmsg/metrics"
	"github.com/transmsg/transmsg/model"
)

// fakeStore answers Stats, or fails, or hangs until the caller gives up.
type fakeStore struct {
	mu    sync.Mutex
	stats []model.Stats
	err   error
	hangs bool
	asked []string // the services asked for
}

func (s *fakeStore) Stats(ctx context.Context, service string) ([]model.Stats, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, service)
	if s.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.stats, s.err
}

// scrape is what one scrape shows: "name{label="value"}" to value. A histogram shows its
// count.
type scrape map[string]float64

func gather(t *testing.T, g prometheus.Gatherer) scrape {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatalf("gather: %v", err)
	}
	out := scrape{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			out[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = value(f.GetType(), m)
		}
	}
	return out
}

func value(kind dto.MetricType, m *dto.Metric) float64 {
	switch kind {
	case dto.MetricType_COUNTER:
		return m.GetCounter().GetValue()
	case dto.MetricType_HISTOGRAM:
		return float64(m.GetHistogram().GetSampleCount())
	default:
		return m.GetGauge().GetValue()
	}
}

// want checks series of a scrape.
func (s scrape) want(t *testing.T, want map[string]float64) {
	t.Helper()
	for series, v := range want {
		if got, ok := s[series]; !ok || got != v {
			t.Errorf("%s: got %v (there: %t), want %v", series, got, ok, v)
		}
	}
}

func registered(t *testing.T, cfg metrics.Config) (*metrics.Metrics, *prometheus.Registry) {
	t.Helper()
	m, err := metrics.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(m)
	return m, reg
}

func TestRowsAreReadAtMostEveryInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &fakeStore{stats: []model.Stats{{
			Service: "orders", Ready: 7, Due: 3, Dead: 2, OldestDue: 90 * time.Second, OldestReady: 2 * time.Hour,
		}}}
		_, reg := registered(t, metrics.Config{Store: s, RowsEvery: time.Minute})
		first := map[string]float64{
			`transmsg_rows{service="orders",status="ready"}`:  7,
			`transmsg_rows{service="orders",status="dead"}`:   2,
			`transmsg_rows_due{service="orders"}`:             3,
			`transmsg_oldest_due_seconds{service="orders"}`:   90,
			`transmsg_oldest_ready_seconds{service="orders"}`: 7200,
			`transmsg_rows_up{}`:                              1,
			`transmsg_rows_read_timestamp_seconds{}`:          float64(time.Now().Unix()),
		}
		gather(t, reg).want(t, first)
		s.stats = nil // the table is empty from here on
		time.Sleep(time.Minute - time.Millisecond)
		gather(t, reg).want(t, first)
		if len(s.asked) != 1 {
			t.Errorf("the store was asked %d times within the interval, want once", len(s.asked))
		}
		time.Sleep(time.Millisecond)
		gather(t, reg).want(t, map[string]float64{
			`transmsg_rows{service="orders",status="ready"}`: 0, // not gone: an alert must be able to end
			`transmsg_rows{service="orders",status="dead"}`:  0,
			`transmsg_oldest_due_seconds{service="orders"}`:  0,
			`transmsg_rows_up{}`:                             1,
			`transmsg_rows_read_timestamp_seconds{}`:         float64(time.Now().Unix()),
		})
	})
}

func TestFailingStoreIsAMetric(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*fakeStore){
		"error": func(s *fakeStore) { s.err = errors.New("database down") },
		"hangs": func(s *fakeStore) { s.hangs = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &fakeStore{stats: []model.Stats{{Service: "orders", Dead: 2}}}
				_, reg := registered(t, metrics.Config{Store: s, Service: "orders", RowsEvery: 10 * time.Second})
				gather(t, reg)
				read := time.Now()
				fail(s)
				time.Sleep(10 * time.Second)
				asked := time.Now()
				after := gather(t, reg)
				if took := time.Since(asked); took > metrics.DefaultRowsTimeout {
					t.Errorf("the scrape took %v, the bound is %v", took, metrics.DefaultRowsTimeout)
				}
				after.want(t, map[string]float64{
					`transmsg_rows_up{}`:                            0,
					`transmsg_rows_read_timestamp_seconds{}`:        float64(read.Unix()),
					`transmsg_rows{service="orders",status="dead"}`: 2,
				})
				gather(t, reg)
				if len(s.asked) != 2 || s.asked[1] != "orders" {
					t.Errorf("the store was asked for %q, want twice for orders: a failure has its pause too", s.asked)
				}
			})
		})
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		cfg  metrics.Config
		want string
	}{
		{"interval", metrics.Config{RowsEvery: time.Millisecond}, "RowsEvery 1ms must be at least 1s"},
		{"no time", metrics.Config{RowsTimeout: 1}, "RowsTimeout 1ns must be 10ms to RowsEvery 30s"},
		{
			"longer than the interval",
			metrics.Config{RowsEvery: time.Second, RowsTimeout: 2 * time.Second},
			"RowsTimeout 2s must be 10ms to RowsEvery 1s",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := metrics.New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
