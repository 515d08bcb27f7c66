package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/logtest"
)

// TestS2_AnOverriddenSettingIsNamed: who reads the settings file and wonders finds in the first
// lines which of its values do not hold, with the variable's name and without the values.
func TestS2_AnOverriddenSettingIsNamed(t *testing.T) {
	store := migrated(t)
	file := filepath.Join(t.TempDir(), "transmsg.yaml")
	settings := "store: sqlite:/nowhere.db\namqp: amqp://app:file-secret@127.0.0.1:1/\nlog-level: info\nhttp: ''\n"
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TRANSMSG_STORE", store)
	t.Setenv("TRANSMSG_AMQP", "amqp://app:env-secret@127.0.0.1:1/")
	t.Setenv("TRANSMSG_LOG_LEVEL", "info") // the same: nothing to say
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var out, errs logtest.Buffer
	run(ctx, []string{"compensator", "--config", file}, strings.NewReader(""), &out, &errs)
	for _, want := range []string{"variable=TRANSMSG_STORE key=store file=" + file, "variable=TRANSMSG_AMQP key=amqp"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, errs.String())
		}
	}
	if strings.Contains(errs.String(), "LOG_LEVEL") || strings.Contains(errs.String(), "-secret") {
		t.Errorf("the log has more than that:\n%s", errs.String())
	}
	code, _, said := runIn(t, "stats", "--config", file)
	if code != 0 || said != "TRANSMSG_STORE overrides key store of "+file+"\n" {
		t.Errorf("stats: exit %d: %q, want the overridden store alone", code, said)
	}
	code, _, said = runIn(t, "stats", "--config", file, "--store", store)
	if code != 0 || said != "" { // a flag is in plain sight
		t.Errorf("stats with a flag: exit %d: %q", code, said)
	}
}
