package transmsg_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What a service links is what it names. The daemon links everything, so what is looked for is
// found there: a pattern that matches nothing would let anything through.
func TestAServiceLinksWhatItNames(t *testing.T) {
	t.Parallel()
	strange := map[string]string{
		"pgx": "github.com/jackc/pgx/v5", "SQLite": "modernc.org/sqlite", "goose": "github.com/pressly/goose/v3",
		"Redis": "github.com/redis/go-redis/v9", "the scheduler": "github.com/go-co-op/gocron/v2",
		"Prometheus": "github.com/prometheus/client_golang/prometheus", "cobra": "github.com/spf13/cobra",
	}
	own := []string{"github.com/go-sql-driver/mysql", "gorm.io/driver/mysql", "github.com/rabbitmq/amqp091-go"}
	service, daemon, lab := deps(t, "./testdata/service"), deps(t, "./cmd/transmsg"), deps(t, "./cmd/transmsg-lab")
	for name, pkg := range strange {
		if slices.Contains(service, pkg) {
			t.Errorf("a service on MySQL links %s (%s)", name, pkg)
		}
		if !slices.Contains(daemon, pkg) {
			t.Errorf("the daemon does not link %s (%s): is the name right?", name, pkg)
		}
	}
	for _, pkg := range []string{"consumer/effect", "internal/bench", "internal/demo"} {
		pkg = "github.com/transmsg/transmsg/" + pkg
		if slices.Contains(daemon, pkg) {
			t.Errorf("the daemon links %s", pkg)
		}
		if !slices.Contains(lab, pkg) {
			t.Errorf("transmsg-lab does not link %s: is the name right?", pkg)
		}
	}
	for _, pkg := range own {
		if !slices.Contains(service, pkg) {
			t.Errorf("the service does not link %s, which it names", pkg)
		}
	}
	drivers := map[string]string{
		"mysql": own[0], "postgres": strange["pgx"], "sqlite": strange["SQLite"],
	}
	for dialect, pkg := range drivers {
		linked := deps(t, "./store/"+dialect)
		for _, other := range drivers {
			if slices.Contains(linked, other) != (other == pkg) {
				t.Errorf("store/%s links %s: %v", dialect, other, other != pkg)
			}
		}
	}
}

// deps are the packages that a package links, itself included.
func deps(t *testing.T, pkg string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg).Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v", pkg, err)
	}
	return strings.Fields(string(out))
}
