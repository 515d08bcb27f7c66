package transmsg_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The Go samples of README and pages are text of an example_test.go, to the letter, so that
// they compile. The tutorial's are programs, which its own test builds.
func TestSamplesCompile(t *testing.T) {
	t.Parallel()
	examples := read(t, "example_test.go") + read(t, "publisher/example_test.go")
	pages, err := filepath.Glob("docs/operate/*.md")
	must(t, err)
	samples := 0
	for _, page := range append(pages, "README.md") {
		for _, b := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, page), -1) {
			samples++
			if !strings.Contains(examples, b[1]) {
				t.Errorf("this sample of %s is in no example_test.go:\n%s", page, b[1])
			}
		}
	}
	if samples < 6 {
		t.Errorf("%d samples found: does the pattern still find them?", samples)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}
