package transmsg_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The README's Go samples are text of example_test.go, to the letter, so that they compile.
func TestReadmeSamplesCompile(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	must(t, err)
	examples, err := os.ReadFile("example_test.go")
	must(t, err)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) < 2 {
		t.Fatalf("found %d Go samples in the README, want at least 2", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(string(examples), b[1]) {
			t.Errorf("this sample is not in example_test.go:\n%s", b[1])
		}
	}
}
