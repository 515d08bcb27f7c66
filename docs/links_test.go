package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?s)\n```.*?\n```\n")
	notSlug = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// Links inside the repository lead to a file and a heading that exist, and every page is
// reached from the README.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	reached := map[string]bool{}
	next := []string{"../README.md"}
	for len(next) > 0 {
		page := next[0]
		next = next[1:]
		if reached[page] {
			continue
		}
		reached[page] = true
		for _, found := range link.FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(found[1], "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, target)), anchor) {
				t.Errorf("%s: %s has no heading #%s", page, target, anchor)
			}
			if strings.HasSuffix(target, ".md") {
				next = append(next, target)
			}
		}
	}
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("operate/*.md")
	if err != nil || len(pages) < 5 || len(more) < 10 {
		t.Fatalf("pages: %v, %v, %v", pages, more, err)
	}
	for _, page := range append(pages, more...) {
		if !reached[filepath.Join("../docs", page)] {
			t.Errorf("no way leads from the README to %s", page)
		}
	}
}

// anchors are the names that a page's headings have in links.
func anchors(text string) []string {
	var all []string
	for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, "\n"), -1) {
		plain := notSlug.ReplaceAllString(strings.ToLower(h[1]), "")
		all = append(all, strings.ReplaceAll(plain, " ", "-"))
	}
	return all
}

var (
	decided = regexp.MustCompile("(?m)^\\| [^|]+ \\| (`[^|]+`) \\|$")
	place   = regexp.MustCompile("`([^`]*[/.][^`]*)`((?: *,? *`[A-Za-z]+`)+)")
	word    = regexp.MustCompile("`([A-Za-z]+)`")
)

// ARCHITECTURE.md says where things are decided: the files exist, and have these names.
func TestArchitectureNamesPlacesThatExist(t *testing.T) {
	t.Parallel()
	_, rest, _ := strings.Cut(read(t, "../ARCHITECTURE.md"), "\n## Where it is decided\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	places := 0
	for _, row := range decided.FindAllStringSubmatch(section, -1) {
		for _, found := range place.FindAllStringSubmatch(row[1], -1) {
			places++
			text := read(t, filepath.Join("..", found[1]))
			for _, name := range word.FindAllStringSubmatch(found[2], -1) {
				if !regexp.MustCompile(`\b` + name[1] + `\b`).MatchString(text) {
					t.Errorf("%s has no %s", found[1], name[1])
				}
			}
		}
	}
	if places < 25 {
		t.Errorf("%d places found: does the pattern still find them?", places)
	}
}
