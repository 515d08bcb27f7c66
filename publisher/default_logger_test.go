package publisher_test

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
)

// Without a Logger a failed send is seen where the service logs by default. Not parallel:
// the default logger is the process's.
func TestH5_WithoutALoggerSymptomsAreSeen(t *testing.T) {
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	snd := &fakeSender{answer: func(confirms.Send) model.Outcome {
		return model.Outcome{Kind: model.Returned, Code: model.CodeNoRoute}
	}}
	p := open(t, newMemStore(), snd, nil)
	r, err := p.Publish(t.Context(), msg("nobody"))
	must(t, err)
	closeNow(t, p)
	if line := out.String(); !strings.Contains(line, "send failed") || !strings.Contains(line, r.ID()) {
		t.Errorf("logged %q, want the failed send", line)
	}
}

// No package of ours is silent because nobody gave it a logger.
func TestH5_NoPackageDiscardsByDefault(t *testing.T) {
	t.Parallel()
	files := 0
	must(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		files++
		if strings.Contains(string(b), "slog.DiscardHandler") {
			t.Errorf("%s discards what is logged", path)
		}
		return err
	}))
	if files < 100 {
		t.Errorf("read %d files, want the whole module", files)
	}
}
