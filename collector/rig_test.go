package collector_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/transmsg/transmsg/collector"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
)

const (
	dead     = "dead"
	aside    = collector.DefaultUncollectable
	patience = 60 * time.Second
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v until %s", patience, what)
		}
	}
}

// rig is a virtual host with a dead-letter queue, a store, and what collectors need.
type rig struct {
	t      *testing.T
	url    string
	client *amqptest.Client
	raw    *amqptest.RawPublisher
	store  *gormstore.Store
	sender *confirms.Sender

	mu     sync.Mutex
	alerts []model.Alert
}

// onDatabases runs a test on each server.
func onDatabases(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	for name, dsn := range map[string]func(dbtest.TB) string{"mysql": dbtest.MySQL, "postgres": dbtest.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newRig(t, dsn(t)))
		})
	}
}

func newRig(t *testing.T, dsn string) *rig {
	t.Helper()
	r := &rig{t: t, url: amqptest.VHost(t)}
	r.client = amqptest.Connect(t, r.url)
	for _, q := range []string{dead, aside} {
		must(t, r.client.Queue(amqptest.QueueSpec{Name: q, Type: amqptest.Quorum}))
	}
	var err error
	r.raw, err = amqptest.NewRawPublisher(r.url)
	must(t, err)
	t.Cleanup(func() { _ = r.raw.Close() }) // a test may have ended it
	r.store, err = migrations.Open(t.Context(), anystore.Source(dsn), gormstore.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, r.store.Close()) })
	cfg, err := confirms.ParseURL(r.url)
	must(t, err)
	cfg.Logger, cfg.TrySuspects = slog.New(slog.DiscardHandler), true
	cfg.MaxPendingBytes = 64 << 20
	r.sender, err = confirms.Open(cfg)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		must(t, r.sender.Close(ctx))
	})
	return r
}

func (r *rig) config() collector.Config {
	cfg, err := confirms.ParseURL(r.url)
	must(r.t, err)
	return collector.Config{
		Addrs: cfg.Addrs, VHost: cfg.VHost, Credentials: cfg.Credentials, Queues: []string{dead},
		Store: r.store, Sender: r.sender, Logger: slog.New(slog.DiscardHandler),
		Alert: func(a model.Alert) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.alerts = append(r.alerts, a)
		},
	}
}

func (r *rig) told() []model.Alert {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]model.Alert{}, r.alerts...)
}

// start runs a collector until stop is called or the test ends.
func (r *rig) start(cfg collector.Config) (c *collector.Collector, stop func()) {
	r.t.Helper()
	c, err := collector.New(cfg)
	must(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				r.t.Errorf("run: %v", err)
			}
		})
	}
	r.t.Cleanup(stop)
	return c, stop
}

// publish sends a message to the dead-letter queue with these very properties.
func (r *rig) publish(properties, body []byte) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	if err := r.raw.Publish(ctx, dead, properties, body); err != nil {
		r.t.Fatalf("properties %.40q: %v", properties, err)
	}
}

// letters are all stored ones.
func (r *rig) letters() []model.DeadLetter {
	r.t.Helper()
	rows, err := r.store.Pool().QueryContext(r.t.Context(), "SELECT id FROM trans_dead_letter ORDER BY created_at, id")
	must(r.t, err)
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var id string
		must(r.t, rows.Scan(&id))
		ids = append(ids, strings.TrimSpace(id))
	}
	must(r.t, rows.Err())
	out := make([]model.DeadLetter, len(ids))
	for i, id := range ids {
		out[i], _, _, err = r.store.Letter(r.t.Context(), id)
		must(r.t, err)
	}
	return out
}

func (r *rig) count() (n int) {
	r.t.Helper()
	must(r.t, r.store.Pool().QueryRowContext(r.t.Context(), "SELECT COUNT(*) FROM trans_dead_letter").Scan(&n))
	return n
}

// settled waits until the collector holds nothing and the dead-letter queue has nothing to deliver.
func (r *rig) settled(c *collector.Collector) {
	r.t.Helper()
	eventually(r.t, "everything is settled", func() bool {
		n, err := r.client.Depth(dead)
		return err == nil && n == 0 && c.States()[0].Held == 0 && c.States()[0].Reason == ""
	})
}

// nothingLeft stops the collector and asserts that it left nothing unacked, which would come back then.
func (r *rig) nothingLeft(c *collector.Collector, stop func()) {
	r.t.Helper()
	r.settled(c)
	stop()
	if n, err := r.client.Depth(dead); err != nil || n != 0 {
		r.t.Errorf("%d letters are in their queue still (%v)", n, err)
	}
}
