package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// fakeChecks are checks that need no server.
func fakeChecks() map[string]check {
	pass := func(_ context.Context, env *env) (figures, error) {
		return figures{"first": env.Rand.Uint64()}, nil
	}
	breach := func(_ context.Context, env *env) (figures, error) {
		env.Breaches.Equal("rows left", 3, 4)
		env.Breaches.AtMost("repeats", 9, 8)
		env.Breaches.AtLeast("delivered", 1, 2)
		env.Breaches.Equal("state", "READY", "READY")
		return figures{"rows": 3}, nil
	}
	fail := func(context.Context, *env) (figures, error) { return nil, errors.New("no broker") }
	panics := func(context.Context, *env) (figures, error) { panic("nil map") }
	noJSON := func(context.Context, *env) (figures, error) { return figures{"c": make(chan int)}, nil }
	return map[string]check{
		"pass":   {name: "pass", about: "passes", run: pass},
		"breach": {name: "breach", run: breach},
		"error":  {name: "error", run: fail},
		"panic":  {name: "panic", run: panics},
		"once":   {name: "once", once: true, run: pass},
		"bad":    {name: "bad", run: noJSON},
	}
}

// run returns the exit status and the outputs; a line on stdout is decoded.
func run(t *testing.T, args ...string) (status int, res result, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = accept(t.Context(), args, fakeChecks(), &out, &errs)
	if out.Len() > 0 {
		if n := strings.Count(out.String(), "\n"); n != 1 || !strings.HasSuffix(out.String(), "\n") {
			t.Errorf("stdout: got %d lines, want 1: %q", n, out.String())
		}
		if err := json.Unmarshal(out.Bytes(), &res); err != nil {
			t.Errorf("stdout is not JSON: %v", err)
		}
	}
	return status, res, errs.String()
}

func stores(res result) string {
	var list []string
	for _, r := range res.Runs {
		list = append(list, r.Store)
	}
	return strings.Join(list, ",")
}

func TestStatusAndStores(t *testing.T) {
	for _, tc := range []struct {
		args   string
		status int
		stores string
	}{
		{"pass", exitPass, "mysql,postgres"},
		{"pass --store all", exitPass, "mysql,postgres,sqlite"},
		{"--store sqlite pass", exitPass, "sqlite"},
		{"once --store all", exitPass, ""},
		{"breach --store mysql", exitBreach, "mysql"},
		{"error --store mysql", exitBreach, "mysql"},
		{"panic --store mysql", exitBreach, "mysql"},
		{"bad", exitBreach, ""}, // figures that are no JSON print no line
		{"--help", exitPass, ""},
		{"", exitUsage, ""},
		{"pass pass", exitUsage, ""},
		{"nosuch", exitUsage, ""},
		{"pass --store oracle", exitUsage, ""},
		{"pass --seed x", exitUsage, ""},
		{"pass --nosuch", exitUsage, ""},
	} {
		t.Run(tc.args, func(t *testing.T) {
			status, res, stderr := run(t, strings.Fields(tc.args)...)
			if status != tc.status || stores(res) != tc.stores {
				t.Errorf("got status %d and stores %q, want %d and %q; stderr: %s",
					status, stores(res), tc.status, tc.stores, stderr)
			}
			if res.Pass != (status == exitPass && res.Name != "") {
				t.Errorf("pass: got %v with status %d", res.Pass, status)
			}
		})
	}
}

func TestUnknownNameListsTheNames(t *testing.T) {
	_, _, stderr := run(t, "nosuch")
	want := `unknown check "nosuch"; the checks are bad, breach, error, once, panic, pass`
	if !strings.Contains(stderr, want) {
		t.Errorf("stderr: got %q, want it to contain %q", stderr, want)
	}
}

func TestAllBreachesAreListed(t *testing.T) {
	_, res, _ := run(t, "breach")
	want := "mysql: rows left: got 3, want 4|mysql: repeats: got 9, want at most 8|" +
		"mysql: delivered: got 1, want at least 2"
	want += "|" + strings.ReplaceAll(want, "mysql", "postgres")
	if got := strings.Join(res.Breaches, "|"); got != want {
		t.Errorf("breaches:\n got %s\nwant %s", got, want)
	}
}

func TestErrorIsABreachThatNamesIt(t *testing.T) {
	for name, want := range map[string]string{"error": "no broker", "panic": "panic: nil map"} {
		_, res, _ := run(t, name, "--store", "mysql")
		if len(res.Breaches) != 1 || !strings.Contains(res.Breaches[0], want) {
			t.Errorf("%s: breaches: got %q, want one with %q", name, res.Breaches, want)
		}
	}
}

func TestSeedRepeatsARun(t *testing.T) {
	first := func(args ...string) (any, any) {
		_, res, _ := run(t, append([]string{"pass"}, args...)...)
		if len(res.Runs) != 2 {
			t.Fatalf("runs: got %d, want 2", len(res.Runs))
		}
		return res.Runs[0].Figures["first"], res.Runs[1].Figures["first"]
	}
	a, b := first("--seed", "7")
	again, _ := first("--seed", "7")
	other, _ := first("--seed", "8")
	if a != b || a != again || a == other {
		t.Errorf("got %v (mysql), %v (postgres), %v (again), %v (another seed)", a, b, again, other)
	}
}

func TestFolderIsRemovedUnlessKept(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, tc := range []struct {
		args []string
		want int
	}{{[]string{"pass"}, 0}, {[]string{"panic"}, 0}, {[]string{"pass", "--keep"}, 2}} {
		run(t, tc.args...)
		left, err := os.ReadDir(os.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if len(left) != tc.want {
			t.Errorf("%v: folders left: got %d, want %d", tc.args, len(left), tc.want)
		}
	}
}

func TestRegistryIsConsistent(t *testing.T) {
	for name, c := range registry() {
		if c.name != name || c.about == "" || c.run == nil {
			t.Errorf("check %q: name, about and run must be set: %+v", name, c.name)
		}
	}
}

// A check that runs on no store would pass whatever the product does.
func TestEachCheckRunsSomewhere(t *testing.T) {
	t.Parallel()
	checks := registry()
	for name := range checks {
		if opts, err := parse([]string{name}, checks, io.Discard); err != nil || len(opts.stores) == 0 {
			t.Errorf("%s: runs on %d stores: %v", name, len(opts.stores), err)
		}
	}
}
