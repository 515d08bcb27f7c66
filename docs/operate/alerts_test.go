package operate_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/alert"
	"github.com/transmsg/transmsg/internal/commandline"
	"github.com/transmsg/transmsg/model"
)

// The example of alerts.md is what the webhook gets.
func TestAlertsPageShowsTheWebhooksJSON(t *testing.T) {
	t.Parallel()
	got := make(chan []byte, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- body
	}))
	defer server.Close()
	hook, err := alert.NewWebhook(alert.WebhookConfig{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 31, 9, 30, 0, 0, time.UTC)
	a := model.Alert{
		Kind: model.AlertDead, Service: "orders", Exchange: "orders", Code: model.CodeNoRoute, Text: "NO_ROUTE",
		Meaning: model.CodeNoRoute.Meaning(), Count: 600, Total: 700, First: at, Last: at.Add(time.Minute),
		Oldest: at.Add(-time.Hour), Environment: "production", Instance: "compensator-1",
		RoutingKeys: model.AlertNames{
			Count: 600, Samples: [model.MaxAlertNames]string{"order.1", "order.2", "order.3"},
		},
		Sample: model.AlertSample{ID: "01890000-0000-7000-8000-000000000001", Key: "order-1", Attempts: 10},
	}
	a.Command = commandline.List(&a) + " --config /etc/transmsg.yaml"
	a.Resend = commandline.Resend(&a) + " --config /etc/transmsg.yaml"
	if err := hook.Alert(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, <-got, "", "  "); err != nil {
		t.Fatal(err)
	}
	if page := read(t, "alerts.md"); !strings.Contains(page, "\n```json\n"+indented.String()+"\n```\n") {
		t.Errorf("alerts.md does not show what is posted:\n%s", &indented)
	}
}

// An alert that says least has the fields that the page names as always there, and no other.
func TestAlertsPageNamesTheFieldsThatAreAlwaysThere(t *testing.T) {
	t.Parallel()
	got := make(chan map[string]any, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fields := map[string]any{}
		_ = json.NewDecoder(r.Body).Decode(&fields)
		got <- fields
	}))
	defer server.Close()
	hook, err := alert.NewWebhook(alert.WebhookConfig{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := hook.Alert(t.Context(), model.Alert{Kind: model.AlertClock}); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(read(t, "alerts.md"), "- These fields are always there")
	item, _, _ := strings.Cut(rest, "\n- ")
	named := regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(item, -1)
	fields := <-got
	for _, name := range named {
		if _, there := fields[name[1]]; !there {
			t.Errorf("%s is not always there", name[1])
		}
		delete(fields, name[1])
	}
	for name := range fields {
		t.Errorf("%s is always there, and the page does not say so", name)
	}
}

var metricName = regexp.MustCompile(`transmsg_[a-z_]+`)

// metrics.md has every metric of the package's documentation, and no other.
func TestMetricsPageHasEveryName(t *testing.T) {
	t.Parallel()
	documented, page := names(read(t, "../../metrics/doc.go")), names(read(t, "metrics.md"))
	if len(documented) < 40 {
		t.Errorf("%d metrics found: does the pattern still find them?", len(documented))
	}
	for name := range documented {
		if !page[name] {
			t.Errorf("metrics.md lacks %s", name)
		}
	}
	for name := range page {
		if !documented[name] {
			t.Errorf("metrics.md has %s, which there is not", name)
		}
	}
}

func names(text string) map[string]bool {
	all := map[string]bool{}
	for _, name := range metricName.FindAllString(text, -1) {
		all[name] = true
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
