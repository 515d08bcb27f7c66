package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	caseTest = regexp.MustCompile(`(?m)^func Test((?:[A-Z][0-9]+_)+)`)
	caseRow  = regexp.MustCompile(`(?m)^\| ([A-Z][0-9]+) \| `)
)

// Every id in a test's name is on the page of cases, which has each id once.
func TestEveryCaseIsOnThePage(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, row := range caseRow.FindAllStringSubmatch(read(t, "cases.md"), -1) {
		if known[row[1]] {
			t.Errorf("cases.md has %s twice", row[1])
		}
		known[row[1]] = true
	}
	named := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, found := range caseTest.FindAllStringSubmatch(read(t, path), -1) {
			for id := range strings.SplitSeq(strings.TrimSuffix(found[1], "_"), "_") {
				named++
				if !known[id] {
					t.Errorf("%s has a test of case %s, which cases.md does not know", path, id)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if named < 250 {
		t.Errorf("%d ids found in names of tests: does the pattern still find them?", named)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
