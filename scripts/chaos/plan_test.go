package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

func planOf(t *testing.T, args ...string) []step {
	t.Helper()
	o, err := parse(args, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	return newPlan(o)
}

func TestSameSeedSamePlan(t *testing.T) {
	one := fmt.Sprint(planOf(t, "--seed", "7", "--seconds", "600"))
	again := fmt.Sprint(planOf(t, "--seed", "7", "--seconds", "600"))
	other := fmt.Sprint(planOf(t, "--seed", "8", "--seconds", "600"))
	if one != again || one == other {
		t.Errorf("plans:\n%s\n%s (again)\n%s (another seed)", one, again, other)
	}
}

func TestPlanDealsEveryKindEquallyOften(t *testing.T) {
	for _, store := range []string{"mysql", "postgres", "sqlite"} {
		all := kindsFor(options{store: store})
		seconds := fmt.Sprint(len(all) * 2 * int(faultEvery/time.Second))
		got := map[string]int{}
		for _, s := range planOf(t, "--store", store, "--seconds", seconds) {
			got[s.Kind.name]++
			if s.Hold < s.Kind.hold[0] || s.Hold > s.Kind.hold[1] {
				t.Errorf("%s: %s holds for %v, want %v", store, s.Kind.name, s.Hold, s.Kind.hold)
			}
		}
		for _, k := range all {
			if got[k.name] != 2 {
				t.Errorf("%s: %s comes %d times in two decks", store, k.name, got[k.name])
			}
		}
	}
}

func TestSQLiteHasNoFaultsOfAServer(t *testing.T) {
	for _, k := range kindsFor(options{store: storeSQLite}) {
		if strings.HasPrefix(k.name, "database-") {
			t.Errorf("a file has the fault %s", k.name)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, args := range []string{
		"--seconds 5", "--store oracle", "--rate 0", "--only nosuch", "--store sqlite --only database-kill", "extra",
	} {
		if status := chaos(t.Context(), strings.Fields(args), t.Output(), t.Output()); status != exitUsage {
			t.Errorf("%s: exit %d, want %d", args, status, exitUsage)
		}
	}
}

func TestPlanIsPrinted(t *testing.T) {
	var out bytes.Buffer
	status := chaos(t.Context(), []string{"--plan", "--only", "link-cut", "--seconds", "60"}, &out, t.Output())
	if status != exitPass || strings.Count(out.String(), "link-cut") != 6 {
		t.Errorf("exit %d:\n%s", status, &out)
	}
}

func TestWallStepMovesTheWallClockAlone(t *testing.T) {
	now := time.Now()
	for _, by := range []time.Duration{5 * time.Minute, -5 * time.Minute} {
		moved := wallStepped(now, by)
		if moved.Sub(now) != 0 || moved.Round(0).Sub(now.Round(0)) != by {
			t.Errorf("%v: moved by %v (monotonic) and %v (wall)", by, moved.Sub(now), moved.Round(0).Sub(now.Round(0)))
		}
	}
}
