package topology_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The page's example with names of one's own prints what the page shows.
func TestPagesOwnNamesAreDeclared(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operate/topology.md")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	export := regexp.MustCompile(`(?m)^export (TOPOLOGY_[A-Z_]+)='?([^'\n]+)'?$`)
	exports := export.FindAllStringSubmatch(string(text), -1)
	if len(exports) != 5 {
		t.Fatalf("%d settings on the page, want 5: does the pattern still find them?", len(exports))
	}
	for _, e := range exports {
		w.env[e[1]] = e[2]
	}
	out := w.must("apply")
	if !strings.Contains(string(text), "$ scripts/topology/topology.py\n"+out+"```\n") {
		t.Errorf("the page does not show what is printed:\n%s", out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if again := w.must("apply"); strings.TrimSpace(again) != lines[len(lines)-1] {
		t.Errorf("a second run prints %q, want the last line alone", again)
	}
}
