package publisher_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The README's Go samples are functions of example_test.go, to the letter, so that they
// compile.
func TestReadmeSamplesCompile(t *testing.T) {
	t.Parallel()
	readme := read(t, "../README.md")
	examples := read(t, "example_test.go")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readme, -1)
	if len(blocks) < 2 {
		t.Fatalf("found %d Go samples in the README, want at least 2", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(examples, b[1]) {
			t.Errorf("this sample is not in example_test.go:\n%s", b[1])
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
