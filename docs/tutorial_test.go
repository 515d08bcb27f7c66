package docs_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/dbtest"
)

var update = flag.Bool("update", false, "write the output of the tutorial's commands anew")

// The tutorial works as it stands: its programs are built, its commands run one after the
// other in an empty folder, and their output is what the page shows.
func TestTutorialRunsAsPrinted(t *testing.T) {
	page := read(t, "tutorial.md")
	sh := newShell(t, filepath.Join(t.TempDir(), "empty"), tutorialSwaps(t))
	var seen strings.Builder
	all := blocks(page)
	if n := strings.Count(page, "\n```") / 2; n != len(all) {
		t.Fatalf("%d of %d blocks are read: each needs a line of text before it", len(all), n)
	}
	for _, block := range all {
		switch {
		case block.file != "":
			write(t, filepath.Join(sh.folder, "shop", block.file), block.text)
		case block.kind == "sh":
			for command := range strings.Lines(block.text) {
				if out, status := sh.run(strings.TrimSuffix(command, "\n")); status != 0 {
					t.Fatalf("%sended with %d:\n%s", command, status, out)
				}
			}
		case block.kind == "console", block.kind == "console until":
			got := sh.console(block)
			before, after, _ := strings.Cut(page, block.text)
			seen.WriteString(before + tidy(got))
			page = after
			if !*update && plain(got) != plain(block.text) {
				t.Errorf("the page shows\n%s\nand this was seen\n%s", block.text, got)
			}
		default:
			t.Fatalf("a block of the kind %q is not run", block.kind)
		}
	}
	for from, used := range sh.used {
		if !used {
			t.Errorf("the tutorial has no line with %s any more", from)
		}
	}
	if *update {
		write(t, "tutorial.md", seen.String()+page)
	}
}

// tutorialSwaps is what differs from the page: this checkout instead of a release, and a
// database and a virtual host of the test's own.
func tutorialSwaps(t *testing.T) map[string]string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./cmd/transmsg")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return map[string]string{
		"go get github.com/transmsg/transmsg": "go mod edit -require=github.com/transmsg/transmsg@v0.0.0 " +
			"-replace=github.com/transmsg/transmsg=" + root + " && cp " + root + "/go.sum .",
		"go install github.com/transmsg/transmsg/cmd/transmsg@latest": "transmsg version",
		"go mod tidy":                        "export GOFLAGS=-mod=mod", // without asking for modules
		"root@tcp(127.0.0.1:3306)/shop":      dbtest.MySQL(t),
		"amqp://guest:guest@127.0.0.1:5672/": amqptest.VHost(t),
	}
}
