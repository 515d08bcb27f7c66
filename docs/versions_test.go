package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	tested    = regexp.MustCompile(`(?m)^(\| \| Go \|.*)\n\|[-|]+\n\| tested [^|]*\|.*\n(\| passed [^|]*\|.*)$`)
	engineRow = regexp.MustCompile("(?m)^\\| `[a-z]+-[^|]*\\|.*$")
)

// The README names versions that operate/versions.md shows to pass, and MySQL is among them.
func TestReadmeNamesVersionsThatPassed(t *testing.T) {
	t.Parallel()
	table := tested.FindStringSubmatch(read(t, "../README.md"))
	if table == nil {
		t.Fatal("README has no table of versions")
	}
	engines := map[string]string{
		"RabbitMQ": "rabbitmq", "MySQL": "mysql", "MariaDB": "mariadb", "PostgreSQL": "postgres", "Redis": "redis",
	}
	rows := engineRow.FindAllString(read(t, "operate/versions.md"), -1)
	products, versions := strings.Split(table[1], "|"), strings.Split(table[2], "|")
	for i, product := range products {
		product, list := strings.TrimSpace(product), strings.TrimSpace(versions[i])
		if product == "MySQL" && list == "" {
			t.Error("README names no version of MySQL")
		}
		for version := range strings.SplitSeq(list, ", ") {
			if engines[product] == "" || version == "" {
				continue
			}
			passed := slices.ContainsFunc(rows, func(row string) bool {
				return strings.HasPrefix(row, "| `"+engines[product]+"-") && strings.Contains(row, version) &&
					!strings.Contains(row, "FAILED")
			})
			if !passed {
				t.Errorf("%s %s: operate/versions.md has no row of it in which all passed", product, version)
			}
		}
	}
}
