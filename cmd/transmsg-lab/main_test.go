package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/transmsg/transmsg/internal/amqptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Wrong input names the flag and its bound, does nothing, and shows no secret.
func TestWrongInput(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args string
		code int
		want string
	}{
		{"bench --queue stream", exitUsage, `queue "stream" must be quorum or classic`},
		{"bench --only drian", exitUsage, `workload "drian" must be one of naive, publish`},
		{"bench --body 1", exitUsage, "body 1 must be 16 to 1048576"},
		{"bench --store oracle", exitUsage, "store has no known form; want mysql, postgres or sqlite"},
		{"bench --store mysql://user:se%zzCANARY@host/", exitUsage, "percent-encode"},
		{"bench --window 0", exitUsage, "--window 0 must be 1 to 10000"},
		{"bench more", exitUsage, `unknown command "more"`},
		{"demo --channels 17", exitUsage, "--channels 17 must be 1 to 16"},
		{"demo --messages 1", exitUsage, "--messages 1 must be 100 to 100000"},
		{"demo --log-level loud", exitUsage, `--log-level "loud" must be debug, info, warn or error`},
		{"demo --amqp http://app:CANARY@h/", exitUsage, "must begin with amqp:// or amqps://"},
		{"demo --amqp amqp://h/ --amqp-file x", exitUsage, "--amqp and --amqp-file: give one of them"},
		{"demo --amqp-file " + empty, exitUsage, "--amqp-file: " + empty + " is empty"},
		{"bench --store-file /none/there", exitUsage, "--store-file: open /none/there"},
		{
			"bench --store sqlite --amqp amqp://app:CANARY@127.0.0.1:1/ --quick", exitFailed,
			"connect to RabbitMQ at 127.0.0.1:1",
		},
		{
			"demo --log-level debug --amqp amqp://app:CANARY@127.0.0.1:1/", exitFailed,
			"Next: scripts/services.sh rabbitmq starts one, or give --amqp",
		},
	}
	for _, tt := range tests {
		var out, errs strings.Builder
		code := run(context.Background(), strings.Fields(tt.args), &out, &errs)
		if code != tt.code || !strings.Contains(errs.String(), tt.want) {
			t.Errorf("%s: exit %d with %q, want %d with %q", tt.args, code, errs.String(), tt.code, tt.want)
		}
		if strings.Contains(out.String()+errs.String(), "CANARY") {
			t.Errorf("%s shows a secret: %s%s", tt.args, out.String(), errs.String())
		}
	}
}

func TestDemoPrintsItsResult(t *testing.T) {
	t.Parallel()
	var out, errs strings.Builder
	args := []string{"demo", "--json", "--messages", "100", "--amqp", amqptest.VHost(t)}
	if code := run(context.Background(), args, &out, &errs); code != exitDone {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	var res struct {
		Published, Lost int
		Problems        []string
	}
	if err := json.Unmarshal([]byte(out.String()), &res); err != nil || res.Published < 100 || res.Lost != 0 {
		t.Errorf("%q: %v", out.String(), err)
	}
}

// The bench measures on schemas, an exchange and a queue of its own, and says that nothing was lost.
func TestBenchPrintsItsFigures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, plot := filepath.Join(dir, "here.db"), filepath.Join(dir, "plot.svg")
	var out, errs strings.Builder
	args := strings.Fields("bench --quick --messages 100 --repetitions 1 --only publish,drain --callers 16 --json")
	args = append(args, "--store", "sqlite:"+store, "--amqp", amqptest.VHost(t), "--plot", plot)
	if code := run(context.Background(), args, &out, &errs); code != exitDone {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	for _, want := range []string{
		`"lost":0,"repeats":0,"unknown":0,"workloads":[{"name":"publish","callers":16,`, `"limit":`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not in %s", want, out.String())
		}
	}
	if !strings.Contains(errs.String(), "synchronous = 2") {
		t.Errorf("the setting of the store is not told: %s", errs.String())
	}
	if text, err := os.ReadFile(plot); err != nil || !strings.Contains(string(text), "publish, 16 callers") {
		t.Errorf("the plot: %v", err)
	}
	if _, err := os.Stat(store); !os.IsNotExist(err) {
		t.Errorf("the database of the DSN: %v, want it untouched", err)
	}
}
