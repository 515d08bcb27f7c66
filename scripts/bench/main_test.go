package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/dbtest"
)

// Every contestant publishes and drains on real servers; each run checks the queue by
// itself and would fail this one.
func TestAllContestantsPublishAndDrainWithoutLoss(t *testing.T) {
	for kind, store := range map[string]string{"mysql": dbtest.MySQL(t), "postgres": dbtest.Postgres(t)} {
		t.Run(kind, func(t *testing.T) {
			plot := filepath.Join(t.TempDir(), "plot.svg")
			o, err := parse([]string{
				"--store", store, "--amqp", amqptest.VHost(t), "--messages", "100", "--repetitions", "1",
				"--callers", "8", "--json", "--plot", plot,
			}, t.Output())
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := run(t.Context(), o, &out, t.Output()); err != nil {
				t.Fatal(err)
			}
			var rep Report
			if err := json.Unmarshal(out.Bytes(), &rep); err != nil {
				t.Fatal(err)
			}
			if len(rep.Contestants) != 5 || rep.Lost != 0 || rep.Repeats != 0 {
				t.Errorf("want 5 contestants and nothing lost or repeated: %s", &out)
			}
			for _, c := range rep.Contestants {
				if c.Publish <= 0 || c.Drain <= 0 || c.OursOverPublish <= 0 || c.OursOverDrain <= 0 {
					t.Errorf("%s has no rates: %+v", c.Name, c)
				}
			}
			svg, err := os.ReadFile(plot)
			if err != nil || !strings.Contains(string(svg), "drain: Watermill") {
				t.Errorf("the plot lacks Watermill's drain: %v", err)
			}
		})
	}
}

func TestUsageIsRefused(t *testing.T) {
	for _, args := range [][]string{
		{"extra"},
		{"--messages", "5"},
		{"--repetitions", "0"},
		{"--queue", "stream"},
		{"--store", "oracle"},
		{"--amqp", "http://h/"},
		{"--body", "1"},
	} {
		if _, err := parse(args, t.Output()); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}
