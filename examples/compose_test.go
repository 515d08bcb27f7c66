package examples_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// compose is what the test reads of compose.yaml.
type compose struct {
	Services map[string]struct {
		Image       string
		Environment map[string]string
		DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
		Healthcheck map[string]any
	}
}

func readCompose(t *testing.T) compose {
	t.Helper()
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c compose
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// No engine runs the compose file in the tests, so that the names in it are compared with the programs.
func TestComposeGivesEachProgramItsSettings(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	setting := regexp.MustCompile(`shop\.(?:Required|Percent)\("(\w+)"\)`)
	for _, program := range []string{"orders", "payments", "provider"} {
		text, err := os.ReadFile(filepath.Join(program, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, m := range setting.FindAllStringSubmatch(string(text), -1) {
			want = append(want, m[1])
		}
		slices.Sort(want)
		got := slices.Sorted(maps.Keys(c.Services[program].Environment))
		if d := cmp.Diff(got, want); d != "" || len(want) == 0 {
			t.Errorf("settings of %s: compose.yaml against main.go:\n%s", program, d)
		}
	}
}

func TestComposeWaitsForWhatCanBeReady(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	if len(c.Services) != 8 {
		t.Errorf("%d services, want 8", len(c.Services))
	}
	for name, s := range c.Services {
		if s.Image == "" {
			t.Errorf("%s has no image", name)
		}
		for on, how := range s.DependsOn {
			other, ok := c.Services[on]
			switch {
			case !ok:
				t.Errorf("%s waits for %s, which is not there", name, on)
			case how.Condition == "service_healthy" && other.Healthcheck == nil:
				t.Errorf("%s waits until %s is healthy, which has no check", name, on)
			}
		}
	}
}
