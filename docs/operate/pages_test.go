package operate_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	flagName = regexp.MustCompile("(?:`|transmsg [a-z ]*|--[a-z-]+(?:[ =][^ `]+)? )--([a-z][a-z-]+)")
	kubectl  = regexp.MustCompile(`(?m)^ +(kubectl|scripts/topology/topology\.sh) .*$`) // its flags are not ours
	helpFlag = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z-]+)`)
	link     = regexp.MustCompile(`\]\(([a-z-]+\.md)\)`)
	file     = regexp.MustCompile(`scripts/[a-z]+/(?:[a-z.-]+\.[a-z]+)?`)
)

// The pages name only flags, files and pages that exist.
func TestPagesNameWhatExists(t *testing.T) {
	t.Parallel()
	known := flags(t)
	pages, err := filepath.Glob("*.md")
	if err != nil || len(pages) < 7 {
		t.Fatalf("pages: %v, %v", pages, err)
	}
	seen := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range flagName.FindAllStringSubmatch(kubectl.ReplaceAllString(string(text), ""), -1) {
			seen++
			if !known[found[1]] {
				t.Errorf("%s: transmsg has no flag --%s", page, found[1])
			}
		}
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(found[1]); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
		for _, found := range file.FindAllString(string(text), -1) {
			if _, err := os.Stat(filepath.Join("../..", found)); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
	if seen < 15 {
		t.Errorf("found %d flags in the pages: does the pattern still find them?", seen)
	}
}

// flags are those of the verbs that the pages speak of.
func flags(t *testing.T) map[string]bool {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "transmsg")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../cmd/transmsg").
		CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	known := map[string]bool{}
	for _, verb := range []string{
		"compensator", "publish", "migrate", "migrate up", "messages list", "messages retry", "stats", "topology check",
		"dead-letters list", "dead-letters replay", "dead-letters show",
	} {
		out, err := exec.CommandContext(t.Context(), binary, append(strings.Fields(verb), "--help")...).Output()
		if err != nil {
			t.Fatalf("transmsg %s --help: %v", verb, err)
		}
		for _, found := range helpFlag.FindAllStringSubmatch(string(out), -1) {
			known[found[1]] = true
		}
	}
	return known
}
