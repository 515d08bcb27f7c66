package compensator_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/transmsg/transmsg/alert"
	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/model"
)

// C69 on real servers: 1,000 rows of three groups die while the webhook hangs and then
// fails. Good rows are delivered meanwhile; once the webhook works it is told one alert for
// each group, with every row, signed.
func TestC69_WebhookHangsThenFailsThenWorks(t *testing.T) {
	onDatabases(t, func(t *testing.T, r *rig) {
		secret := []byte("webhook secret")
		var mode atomic.Int32 // 0 hangs, 1 fails, 2 works
		var hung, failed atomic.Int32
		var mu sync.Mutex
		told, alerts := map[string]int{}, 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			body, _ := io.ReadAll(q.Body)
			switch mode.Load() {
			case 0:
				hung.Add(1)
				<-q.Context().Done()
				return
			case 1:
				failed.Add(1)
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			var p struct {
				RoutingKey string `json:"routing_key"`
				Count      int    `json:"count"`
			}
			if err := alert.Verify(secret, q.Header.Get(alert.SignatureHeader), body, alert.Timeout); err != nil {
				t.Error(err)
			}
			if err := json.Unmarshal(body, &p); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			told[p.RoutingKey] += p.Count
			alerts++
		}))
		t.Cleanup(server.Close)
		sink, err := alert.NewWebhook(alert.WebhookConfig{URL: server.URL, Secret: secret})
		r.must(err)
		want := map[string]int{"dead.a": 500, "dead.b": 300, "dead.c": 200}
		for key, n := range want {
			r.put(n, "orders", "ex", key)
		}
		cfg := r.config()
		cfg.Alerter, cfg.Policy.MaxAttempts, cfg.Policy.MinDeadAge = sink, 1, model.None
		c := start(t, cfg)
		r.untilRows(0, 1000)
		eventually(t, "the webhook hangs", func() bool { return hung.Load() > 0 })
		good := r.put(2000, "orders", "ex", "k")
		r.untilRows(0, 1000) // delivered while it hangs: it gives up after 5 s at the earliest
		if hung.Load() != 1 || failed.Load() != 0 {
			t.Errorf("%d calls hung and %d failed before the good rows were through, want the first alone",
				hung.Load(), failed.Load())
		}
		mode.Store(1)
		eventually(t, "the webhook fails", func() bool { return failed.Load() > 0 })
		mode.Store(2)
		eventually(t, "all rows are told", func() bool {
			mu.Lock()
			defer mu.Unlock()
			sum := 0
			for _, n := range told {
				sum += n
			}
			return sum >= 1000
		})
		c.drained(t)
		mu.Lock()
		defer mu.Unlock()
		for key, n := range want {
			if told[key] != n {
				t.Errorf("%s: told of %d rows, want %d", key, told[key], n)
			}
		}
		if alerts != 3 {
			t.Errorf("%d alerts, want one for each group", alerts)
		}
		r.deliveredOnce("q1", good)
	})
}

// What is ours fits the interface.
var (
	_ compensator.Alerter = alert.LogSink{}
	_ compensator.Alerter = alert.Multi{}
	_ compensator.Alerter = (*alert.WebhookSink)(nil)
	_ compensator.Alerter = (*alert.ShoutrrrSink)(nil)
)
