package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// hostileLimit is for a process that should have refused what it was given.
	hostileLimit = 10 * time.Second
	// hostileValues is how many of a setting's hostile values a run gives by each source.
	hostileValues = 8
)

// hostileRun is one command line that must be refused.
type hostileRun struct {
	setting, value string
	names          []string // one of these must be in the error
	args, env      []string
	status         []int // allowed exit statuses
}

// settings gives every setting of docs/configuration.md hostile values as a flag, as an
// environment variable and as a key of a file.
func (h *hostile) settings(ctx context.Context) error {
	page, err := os.ReadFile(filepath.Join(h.Root, "docs", "configuration.md"))
	if err != nil {
		return err
	}
	var runs []hostileRun
	seen := map[string]bool{}
	kinds := h.settingKinds()
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		name, isRow := strings.CutPrefix(strings.Trim(cells[min(1, len(cells)-1)], " "), "`--")
		name = strings.TrimSuffix(name, "`")
		if !isRow || seen[name] {
			continue
		}
		seen[name] = true
		kind, known := kinds[name]
		if !h.Breaches.Check(known, "the setting %s has no hostile values: add it to settingKinds", name) {
			continue
		}
		runs = append(runs, h.settingRuns(name, kind)...)
	}
	h.Breaches.Equal("settings on the page", len(seen), len(kinds))
	h.figs["settings"], h.figs["settings_refused"] = len(seen), len(runs)
	return h.refuse(ctx, runs)
}

// settingRuns are the command lines for some values of one setting from each source.
func (h *hostile) settingRuns(name string, kind settingKind) []hostileRun {
	variable := "TRANSMSG_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	names := append([]string{"--" + name, variable, "key " + name}, kind.alias...)
	var runs []hostileRun
	for source := range 3 {
		values := slices.Clone(kind.values)
		h.Rand.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
		for i, value := range values[:min(len(values), hostileValues)] {
			run := hostileRun{
				setting: name, value: value, names: names, args: slices.Clone(kind.args), status: kind.status,
			}
			switch {
			case source == 0 && !strings.Contains(value, "\x00"):
				run.args = append(run.args, "--"+name+"="+value)
			case source == 1 && !strings.Contains(value, "\x00"):
				run.env = []string{variable + "=" + value}
			case source == 2 && printable(value): // YAML has no other bytes; its escapes come with the files
				path := filepath.Join(h.Dir, fmt.Sprintf("%s-%d.yaml", name, i))
				_ = os.WriteFile(path, []byte(name+": "+quoted(value)+"\n"), 0o600) // a file that is missing is told
				run.args = append(run.args, "--config", path)
			default:
				continue
			}
			runs = append(runs, run)
		}
	}
	return runs
}

// refuse runs all, some at a time, and checks that each is refused by name.
func (h *hostile) refuse(ctx context.Context, runs []hostileRun) error {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		first error
	)
	places := make(chan struct{}, 4)
	for _, run := range runs {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			if err := h.refuseOne(ctx, run); err != nil {
				mu.Lock()
				defer mu.Unlock()
				first = errors.Join(first, err)
			}
		})
	}
	wg.Wait()
	return first
}

func (h *hostile) refuseOne(ctx context.Context, run hostileRun) error {
	limited, cancel := context.WithTimeout(ctx, hostileLimit)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(limited, h.binary, run.args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = h.Dir, append(plainEnv(), run.env...), &out, &out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		h.Breaches.Add("%s %.80q was taken: %.300q", run.setting, run.value, out.String())
		return nil
	case err != nil && !errors.As(err, &exit):
		return fmt.Errorf("%s %.80q: %w", run.setting, run.value, err)
	}
	text := out.String()
	named := slices.ContainsFunc(run.names, func(name string) bool { return strings.Contains(text, name) })
	h.Breaches.Check(slices.Contains(run.status, cmd.ProcessState.ExitCode()) && named &&
		!strings.Contains(text, "goroutine "), "%s %.80q by %.120q %q: exit status %d, %.400q",
		run.setting, run.value, run.args, run.env, cmd.ProcessState.ExitCode(), text)
	return nil
}

// flags gives the flags that describe one message hostile values.
func (h *hostile) flags(ctx context.Context) error {
	var runs []hostileRun
	add := func(name, value string) {
		args := []string{
			"publish", "--store", h.dsn, "--amqp", h.url, "--service", serviceName, "--exchange", h.exchange,
			"--body", "x", "--" + name + "=" + value,
		}
		field := strings.ReplaceAll(name, "-", "_")
		runs = append(runs, hostileRun{
			setting: name, value: value, names: []string{"--" + name, field + " ", field + "s["}, args: args,
			status: []int{1, 2},
		})
	}
	for _, f := range textFields() {
		for _, t := range h.texts() {
			if t.what != withNUL { // no command line can hold one
				add(strings.ReplaceAll(f.name, "_", "-"), t.text)
			}
		}
	}
	for name, values := range map[string][]string{
		"exchange":   {letters(h.Rand, 256), "a\r\nb", "\xff"},
		"id":         slices.DeleteFunc(h.hostileIDs(), func(id string) bool { return strings.Contains(id, "\x00") }),
		"expiration": {"1h", "-1", "\u0663", "\xff", "1e3"},
		"priority":   {"-1", "256", "x", "", "1.5", "\u0663"},
		"timestamp":  {"now", "1969-12-31T23:59:59Z", "2026-02-30T00:00:00Z", "\xff"},
		"not-before": {"tomorrow", "90", "\U0001F600"},
		"header":     {"x", "=x", "CC=q", "x-transmsg-a=b", "\xff=1", "a=\xff", letters(h.Rand, 256) + "=1"},
	} {
		for _, v := range values {
			add(name, v)
		}
	}
	h.figs["flags_refused"] = len(runs)
	if err := h.refuse(ctx, runs); err != nil {
		return err
	}
	return h.nothingStored(ctx, "hostile flags")
}
