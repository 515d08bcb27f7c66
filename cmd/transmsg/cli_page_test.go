package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var boundRow = regexp.MustCompile("(?m)^\\| `--([a-z]+)` \\| ([a-z, ]+) \\| ([0-9]+) \\| ([^|]+) \\|$")

// The defaults and bounds of repair on the page of the command line are those of the flags.
func TestCommandLinePageHasTheBoundsOfRepair(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	root, seen := (&app{secrets: &redactor{}}).root(), 0
	for _, row := range boundRow.FindAllStringSubmatch(string(page), -1) {
		for verb := range strings.SplitSeq(row[2], ", ") {
			cmd, _, err := root.Find([]string{"messages", verb})
			if err != nil {
				t.Fatal(err)
			}
			f := cmd.Flags().Lookup(row[1])
			if f == nil || f.DefValue != row[3] {
				t.Errorf("messages %s: --%s is %+v, the page says default %s", verb, row[1], f, row[3])
				continue
			}
			bound := regexp.MustCompile(`1 to [0-9]+|0 makes all due now`).FindString(row[4])
			if bound == "" || !strings.Contains(f.Usage, bound) {
				t.Errorf("messages %s: --%s is %q, the page says %q", verb, row[1], f.Usage, row[4])
			}
			seen++
		}
	}
	if seen != 8 {
		t.Errorf("the page has %d bounds, want 8", seen)
	}
}
