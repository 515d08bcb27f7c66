package observe_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/proc"
	"github.com/transmsg/transmsg/metrics"
)

// The page's prometheus.yml is taken by a real Prometheus, which then has a process of each
// job and the alert rules.
func TestPagesConfigurationRuns(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(string(text))
	if found == nil {
		t.Fatal("the page has no YAML")
	}
	m, err := metrics.New(metrics.Config{Store: noStore{}})
	if err != nil {
		t.Fatal(err)
	}
	target := httptest.NewServer(m.Handler())
	t.Cleanup(target.Close)
	addr := strings.TrimPrefix(target.URL, "http://")
	config := found[1]
	for _, name := range []string{"compensator-1:9467", "compensator-2:9467", "orders:8080"} {
		if !strings.Contains(config, name) {
			t.Errorf("the page's configuration has no %s any more", name)
		}
		config = strings.ReplaceAll(config, name, addr)
	}
	api := startPrometheus(t, strings.ReplaceAll(config, "15s", "1s"))
	for job, want := range map[string]string{"transmsg": "1", "orders": "1"} {
		ask(t, api+`/api/v1/query?query=up{job="`+job+`"}`, func(body string) bool {
			return strings.Contains(body, `"`+want+`"]`)
		})
	}
	ask(t, api+"/api/v1/rules", func(body string) bool {
		return strings.Count(body, `"type":"alerting"`) == len(rules(t))
	})
}

// startPrometheus runs the program with a configuration until the test ends, and returns
// its address.
func startPrometheus(t *testing.T, config string) string {
	t.Helper()
	runTestScript(t) // which installs the package where it is missing
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatalf("%v: next step: install the Debian package prometheus", err)
	}
	dir := t.TempDir()
	rules, err := os.ReadFile("transmsg.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"prometheus.yml": []byte(config), "transmsg.rules.yaml": rules} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ports, err := proc.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "log")
	p, err := proc.Start(proc.Spec{Path: path, Dir: dir, Output: log, Args: []string{
		"--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=" + proc.Loopback(ports[0]),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := p.Kill()
		<-p.Done()
		if text, readErr := os.ReadFile(log); err != nil || t.Failed() {
			t.Errorf("prometheus: %v, %v\n%s", err, readErr, text)
		}
	})
	return fmt.Sprintf("http://%s", proc.Loopback(ports[0]))
}

// ask polls until the answer is as wanted.
func ask(t *testing.T, url string, wanted func(string) bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	last := ""
	for time.Now().Before(deadline) {
		if answer, err := http.Get(url); err != nil { //nolint:noctx // a test's own server on loopback
			last = err.Error()
		} else {
			var body json.RawMessage
			err := json.NewDecoder(answer.Body).Decode(&body)
			_ = answer.Body.Close()
			if last = string(body); err == nil && wanted(last) {
				return
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Errorf("%s: %s", url, last)
}
