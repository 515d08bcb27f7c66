package publisher_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// pages have Go samples, so many at least.
var pages = map[string]int{
	"../docs/operate/pools-and-transactions.md": 1,
	"../docs/operate/consume.md":                1,
	"../docs/operate/deploy.md":                 1,
}

// The Go samples of the pages are functions of example_test.go, to the letter, so that they
// compile, and samples_test.go runs them.
func TestSamplesOfPagesCompile(t *testing.T) {
	t.Parallel()
	examples := read(t, "example_test.go")
	for page, least := range pages {
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, page), -1)
		if len(blocks) < least {
			t.Fatalf("found %d Go samples in %s, want at least %d", len(blocks), page, least)
		}
		for _, b := range blocks {
			if !strings.Contains(examples, b[1]) {
				t.Errorf("this sample of %s is not in example_test.go:\n%s", page, b[1])
			}
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
