package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// settingsFiles gives files that are no settings, and names that are none.
func (h *hostile) settingsFiles(ctx context.Context) error {
	name := letters(h.Rand, 9)
	base := h.daemonArgs("")
	var runs []hostileRun
	documents := hostileDocuments(name)
	for i, text := range slices.Sorted(maps.Keys(documents)) {
		path := filepath.Join(h.Dir, fmt.Sprintf("%d-hostile.yaml", i))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
		runs = append(runs, hostileRun{
			setting: "a settings file", value: text, names: []string{documents[text]},
			args: append(slices.Clone(base), "--config", path), status: []int{2},
		})
	}
	for _, path := range h.files() {
		runs = append(runs, hostileRun{
			setting: "config", value: path, names: []string{"--config"},
			args: append(slices.Clone(base), "--config", path), status: []int{2},
		})
	}
	variable := "TRANSMSG_" + strings.ToUpper(name)
	runs = append(runs,
		hostileRun{setting: "a flag", names: []string{"--" + name}, args: append(slices.Clone(base), "--"+name+"=1")},
		hostileRun{setting: "a variable", names: []string{variable}, args: base, env: []string{variable + "=1"}},
		hostileRun{setting: "an argument", names: []string{name}, args: append(slices.Clone(base), name)},
		hostileRun{setting: "a verb", names: []string{name}, args: []string{name}},
	)
	for i := range runs {
		runs[i].status = []int{2}
	}
	h.figs["files_and_names_refused"] = len(runs)
	return h.refuse(ctx, runs)
}

// hostileDocuments are files by what their error must name: the key, or the file where none
// can be told.
func hostileDocuments(unknown string) map[string]string {
	const file = "hostile.yaml"
	return map[string]string{
		"- a\n- b\n":                      file,
		"text":                            file,
		"batch: 1\n---\nrate: 2\n":        file,
		"{":                               file,
		"instance: \xff\xfe\n":            file,
		"instance: \"\\ud800\"\n":         file,
		"\tbatch: 1\n":                    file,
		"instance: \x00\n":                file,
		"instance: &x [*x]\n":             file,
		"? [a, b]\n: c\n":                 file,
		"batch: 1\nbatch: 2\n":            "batch",
		unknown + ": 1\n":                 unknown,
		"Batch: 1\n":                      "Batch",
		"batch: 1\nbat\u0441h: 1\n":       "bat\u0441h",
		"instance: {a: b}\n":              "instance.a",
		"amqp.url: x\n":                   "amqp.url",
		"\"\": 1\n":                       "unknown key",
		"batch:\n":                        "batch",
		"batch: null\n":                   "batch",
		"batch: ~\n":                      "batch",
		"interval: 5\n":                   "interval",
		"interval: 12:30\n":               "interval",
		"batch: [1, 2]\n":                 "batch",
		"lock-pause: yes\n":               "lock-pause",
		"batch: 1.5\n":                    "batch",
		"batch: true\n":                   "batch",
		"rate: .nan\n":                    "Rate",
		"interval: 2026-01-31\n":          "interval",
		"batch: {}\n":                     "batch",
		"log-level: 1\n":                  "log-level",
		"instance: 0123\n":                "instance",
		"instance: 1e3\n":                 "instance",
		"instance: true\n":                "instance",
		"instance: 2026-01-31\n":          "instance",
		"instance: [a]\n":                 "instance",
		"services: [a, 12]\n":             "services",
		"services: [[a]]\n":               "services",
		"services: []\n":                  "services",
		"json: true\n":                    "json",
		"config: x\n":                     "config",
		"a: &a [x,x]\nb: &b [*a,*a,*a]\n": "unknown key",
	}
}
