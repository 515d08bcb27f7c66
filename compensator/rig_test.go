package compensator_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/internal/logtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
)

// The real parts are what the narrow interfaces ask for.
var (
	_ compensator.Store  = (*gormstore.Store)(nil)
	_ compensator.Sender = (*confirms.Sender)(nil)
)

// rig is a real store and a real broker with exchange ex, queue q1 and key k.
type rig struct {
	*amqptest.Client

	t     *testing.T
	store *gormstore.Store
	db    *sql.DB
	url   string
	dsn   string
}

// onDatabases runs test on a fresh schema of each server and a fresh virtual host.
func onDatabases(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Parallel()
	for _, d := range []struct {
		name, driver string
		dsn          func(dbtest.TB) string
	}{
		{"mysql", "mysql", dbtest.MySQL},
		{"postgres", "pgx", dbtest.Postgres},
	} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			test(t, newRig(t, d.driver, d.dsn(t), amqptest.VHost(t)))
		})
	}
}

// onStores is onDatabases with SQLite too, where a rig has no exec.
func onStores(t *testing.T, test func(t *testing.T, r *rig)) {
	onDatabases(t, test)
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, newRig(t, "", "sqlite:"+filepath.Join(t.TempDir(), "test.db"), amqptest.VHost(t)))
	})
}

func newRig(t *testing.T, driver, dsn, url string) *rig {
	t.Helper()
	store, err := anystore.Open(t.Context(), dsn, gormstore.Options{SkipSchemaCheck: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	var db *sql.DB
	if driver != "" {
		if db, err = sql.Open(driver, dsn); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if _, err := migrations.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	r := &rig{Client: amqptest.Connect(t, url), t: t, store: store, db: db, url: url, dsn: dsn}
	r.topology()
	return r
}

func (r *rig) topology() {
	r.t.Helper()
	r.must(r.Exchange("ex", amqp.ExchangeDirect, nil))
	r.must(r.Queue(amqptest.QueueSpec{Name: "q1"}))
	r.must(r.Bind("q1", "ex", "k"))
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// put stores n rows due now and returns their ids.
func (r *rig) put(n int, service, exchange, key string) []string {
	r.t.Helper()
	ids := make([]string, n)
	for begin := 0; begin < n; begin += 500 {
		var drafts []model.Draft
		for i := begin; i < min(begin+500, n); i++ {
			m, err := model.Normalize(model.Message{Exchange: exchange, RoutingKey: key, Body: fmt.Append(nil, i)},
				time.Now(), model.Limits{})
			r.must(err)
			ids[i] = m.ID
			drafts = append(drafts, model.Draft{TransMessage: model.NewTransMessage(service, &m, true)})
		}
		_, err := r.store.Insert(r.t.Context(), drafts)
		r.must(err)
	}
	return ids
}

// sender opens a sender on the rig's virtual host, through addr when that is not empty.
func (r *rig) sender(addr string, change func(*confirms.Config)) *confirms.Sender {
	r.t.Helper()
	cfg, err := confirms.ParseURL(r.url)
	r.must(err)
	if addr != "" {
		cfg.Addrs = []string{addr}
	}
	if change != nil {
		change(&cfg)
	}
	s, err := confirms.Open(cfg)
	r.must(err)
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = s.Close(ctx) // a test that cares closes by itself
	})
	return s
}

// config is a compensator that is quick to try again.
func (r *rig) config() compensator.Config {
	return compensator.Config{
		Store: r.store, Sender: r.sender("", nil), Interval: 50 * time.Millisecond,
		Policy: model.Policy{BaseDelay: 200 * time.Millisecond, Multiplier: 1, Jitter: model.None},
	}
}

// stats sums up all services.
func (r *rig) stats() (s model.Stats) {
	r.t.Helper()
	all, err := r.store.Stats(r.t.Context(), "")
	r.must(err)
	for _, one := range all {
		s.Ready += one.Ready
		s.Due += one.Due
		s.Dead += one.Dead
		s.Exhausted += one.Exhausted
	}
	return s
}

// untilRows waits until so many rows are READY and DEAD.
func (r *rig) untilRows(ready, dead int64) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d rows READY and %d DEAD", ready, dead), func() bool {
		s := r.stats()
		return s.Ready == ready && s.Dead == dead
	})
}

func (r *rig) show(id string) (model.TransMessage, []model.Event) {
	r.t.Helper()
	row, events, err := r.store.Show(r.t.Context(), id)
	r.must(err)
	return row, events
}

// deliveredOnce checks that the queue holds each id once and nothing else.
func (r *rig) deliveredOnce(queue string, ids []string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	got, err := r.Collect(ctx, queue, len(ids))
	if err != nil {
		r.t.Error(err)
	}
	more, err := r.Drain(queue)
	r.must(err)
	var have []string
	for _, d := range append(got, more...) {
		have = append(have, d.MessageId)
	}
	slices.Sort(have)
	want := slices.Sorted(slices.Values(ids))
	if !slices.Equal(have, want) {
		r.t.Errorf("the queue held %d messages, %d different; want each of %d once",
			len(have), len(slices.Compact(slices.Clone(have))), len(want))
	}
}

// delivered checks that the queue holds each id, perhaps again: a channel that the broker
// closes leaves the outcomes of what is in flight unknown.
func (r *rig) delivered(queue string, ids []string) {
	r.t.Helper()
	got, err := r.Drain(queue)
	r.must(err)
	have := map[string]bool{}
	for _, d := range got {
		have[d.MessageId] = true
	}
	for _, id := range ids {
		if !have[id] {
			r.t.Errorf("%s was not delivered", id)
		}
	}
	if len(have) != len(ids) {
		r.t.Errorf("%d different messages in the queue, want %d", len(have), len(ids))
	}
}

// exec runs SQL behind the library's back.
func (r *rig) exec(query string) {
	r.t.Helper()
	_, err := r.db.ExecContext(r.t.Context(), query)
	r.must(err)
}

func quoted(ids []string) string { return "('" + strings.Join(ids, "','") + "')" }

// counters of what an Observer was told.
type counters struct {
	mu        sync.Mutex
	runs      []compensator.RunStats
	skipped   map[string]int
	starts    int
	conflicts int
}

func (c *counters) observers() []compensator.Observer {
	return []compensator.Observer{{
		RunStart: func() { c.add(func() { c.starts++ }) },
		RunEnd:   func(f compensator.RunStats) { c.add(func() { c.runs = append(c.runs, f) }) },
		RunSkipped: func(reason string) {
			c.add(func() {
				if c.skipped == nil {
					c.skipped = map[string]int{}
				}
				c.skipped[reason]++
			})
		},
		LeaseConflict: func(string) { c.add(func() { c.conflicts++ }) },
	}}
}

func (c *counters) add(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *counters) get(f func() int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return f()
}

func textLog(b *logtest.Buffer) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }
