package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// edit replaces old, which occurs exactly once in the file, by new.
type edit struct{ file, old, new string }

// mutant is one fault, and what must notice it.
type mutant struct {
	name  string
	edits []edit
	check check
	// hangs says that a check that does not end has noticed the fault.
	hangs bool
}

// one is a fault of a single edit.
func one(name, file, from, to string, c check) mutant {
	return mutant{name: name, edits: []edit{{file, from, to}}, check: c}
}

// all returns the mutants in the order in which they are tried.
func all() []mutant {
	return slices.Concat(ofConfirms(), ofBreaker(), ofSettle(), ofStore(), ofPublisher(), ofCompensator(), ofConsumer(),
		ofLetters(), ofCmd())
}

// errStale says that the code has changed since the fault was written down.
var errStale = errors.New("the code that the fault replaces is not there exactly once")

// try builds the fault in and runs its check. The word is what the line says.
func (m *mutant) try(ctx context.Context) (word string, r result) {
	begin := time.Now()
	dir, err := os.MkdirTemp("", "transmsg-mutant-")
	if err != nil {
		return "ERROR", result{output: err.Error()}
	}
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(dir)
	switch {
	case errors.Is(err, errStale):
		return "stale", result{output: err.Error()}
	case err != nil:
		return "ERROR", result{output: err.Error()}
	}
	if r := m.check.build(ctx, overlay, dir); r.verdict != passed {
		r.output = "does not compile:\n" + r.output
		return "ERROR", r
	}
	r = m.check.run(ctx, overlay, dir)
	r.took = time.Since(begin)
	switch {
	case r.verdict == failed, r.verdict == hung && m.hangs:
		return "killed", r
	case r.verdict == passed, r.verdict == hung:
		return "SURVIVED", r
	}
	return "ERROR", r
}

// overlay writes the changed files and the file that makes the go command use them, and
// returns its path.
func (m *mutant) overlay(dir string) (string, error) {
	texts := map[string]string{}
	for _, e := range m.edits {
		path, err := filepath.Abs(e.file)
		if err != nil {
			return "", err
		}
		if _, ok := texts[path]; !ok {
			text, err := os.ReadFile(path) //nolint:gosec // named by the table
			if err != nil {
				return "", fmt.Errorf("%w: %w", errStale, err)
			}
			texts[path] = string(text)
		}
		if strings.Count(texts[path], e.old) != 1 {
			return "", fmt.Errorf("%w: %s: %s", errStale, e.file, e.old)
		}
		texts[path] = strings.Replace(texts[path], e.old, e.new, 1)
	}
	replace := map[string]string{}
	for path, text := range texts {
		changed := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[path] = changed
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, list, 0o600)
}

// noticedBy is the check, with the tests that failed where there are some.
func (m *mutant) noticedBy(r result) string {
	if len(r.failing) == 0 {
		return m.check.String()
	}
	return m.check.where() + " " + strings.Join(r.failing, ",")
}
