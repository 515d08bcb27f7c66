package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// durations are texts that are none, negative ones and those given.
func (h *hostile) durations(more ...string) []string {
	return append([]string{
		"", "x", "5", "1h 2m", "NaN", "1d", "\u0661s", "1s\u200b", "\U0001F600", "\u202e1s", "1s\n", "0x1s",
		fmt.Sprintf("%dh", 2_562_048+h.Rand.Int64N(1<<40)), "-1s", fmt.Sprintf("-%dms", 1+h.Rand.IntN(1e9)),
	}, more...)
}

// integers are texts that are none, and negative ones.
func (h *hostile) integers(more ...string) []string {
	return append([]string{
		"", "x", "1.5", "1e3", "NaN", "1,000", " 1", "1 ", "\u0661", "\u202e1", "9223372036854775808", "-1", "--1",
		"0x", fmt.Sprint(-h.Rand.Int64N(math.MaxInt64)), "1\n", "true",
	}, more...)
}

// floats are texts that are none, and numbers that are none or negative.
func (h *hostile) floats(more ...string) []string {
	return append([]string{
		"", "x", "NaN", "nan", "-Inf", "1e999", "1,5", "\u0661", " 1", "-0.1", "1.2.3",
		fmt.Sprint(-h.Rand.Float64() - 1),
	}, more...)
}

// words are for a setting that knows a few.
func (h *hostile) words(more ...string) []string {
	return append([]string{
		letters(h.Rand, 300), "\U0001F600", "\u202eofni", " info", "json ", "\xff", "1.0", "info\n",
	}, more...)
}

// urls are texts that are no URL of any kind.
func (h *hostile) urls(more ...string) []string {
	return append([]string{
		letters(h.Rand, 5), "http//x", "://", "\x01://h/", "\xff", "\U0001F600", "%", letters(h.Rand, 3000),
		"javascript:x",
	}, more...)
}

// files are paths that lead nowhere, and files with these contents.
func (h *hostile) files(contents ...string) []string {
	paths := []string{
		"/nonexistent/" + letters(h.Rand, 8), h.Dir, letters(h.Rand, 300), strings.Repeat("x/", 2500), "/proc/self/mem",
		"\xff", "\U0001F600", "a\nb",
	}
	for i, text := range contents {
		path := filepath.Join(h.Dir, fmt.Sprintf("hostile-%s-%d", letters(h.Rand, 6), i))
		_ = os.WriteFile(path, []byte(text), 0o600) // a file that is missing is as bad
		paths = append(paths, path)
	}
	return paths
}
