package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// result is the line that a run prints.
type result struct {
	Name string `json:"name"`
	Seed uint64 `json:"seed"`
	Pass bool   `json:"pass"`
	// Breaches of all runs; those of a store start with its name.
	Breaches []string    `json:"breaches"`
	Runs     []runResult `json:"runs"`
}

// runResult is one store's part of a result.
type runResult struct {
	Store    string   `json:"store,omitempty"`
	Pass     bool     `json:"pass"`
	Breaches []string `json:"breaches"`
	Seconds  float64  `json:"seconds"`
	Figures  figures  `json:"figures"`
}

// print writes the result as one line.
func (r result) print(w io.Writer) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", line)
	return err
}

// runCheck runs the check on each store, one after the other: they share the
// machine, and a figure measured beside another run means nothing.
func runCheck(ctx context.Context, opts options, stderr io.Writer) result {
	res := result{Name: opts.check.name, Seed: opts.seed, Pass: len(opts.stores) > 0, Breaches: []string{}}
	for _, store := range opts.stores {
		one := runOn(ctx, opts, store, stderr)
		for _, b := range one.Breaches {
			if store != "" {
				b = store + ": " + b
			}
			res.Breaches = append(res.Breaches, b)
		}
		res.Pass = res.Pass && one.Pass
		res.Runs = append(res.Runs, one)
	}
	return res
}

func runOn(ctx context.Context, opts options, store string, stderr io.Writer) runResult {
	begin := time.Now()
	found := &breaches{}
	figs, err := runIn(ctx, opts, store, found, stderr)
	if err != nil {
		found.Add("the check could not be carried out: %v", err)
	}
	if figs == nil {
		figs = figures{}
	}
	list := found.All()
	return runResult{
		Store: store, Pass: len(list) == 0, Breaches: list,
		Seconds: time.Since(begin).Seconds(), Figures: figs,
	}
}

// runIn gives the check its folder. A panic in a check is a breach with the
// line still printed, not the end of the program.
func runIn(ctx context.Context, opts options, store string, found *breaches, stderr io.Writer) (
	figs figures, err error,
) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	root, err := filepath.Abs(opts.root)
	if err != nil {
		return nil, fmt.Errorf("find the repository: %w", err)
	}
	dir, err := os.MkdirTemp("", "transmsg_test_accept_")
	if err != nil {
		return nil, fmt.Errorf("make the folder of the run: %w", err)
	}
	log := slog.New(slog.NewTextHandler(stderr, nil)).With("check", opts.check.name, "store", store)
	if opts.keep {
		log.InfoContext(ctx, "folder is kept", "dir", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	return opts.check.run(ctx, &env{
		Store: store, Seed: opts.seed, Rand: rand.New(rand.NewPCG(opts.seed, 0)), Keep: opts.keep,
		Dir: dir, Root: root, Breaches: found, Log: log,
	})
}
