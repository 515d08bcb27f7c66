package main

import (
	"context"
	"log/slog"
	"math/rand/v2"
)

// figures are what a check measured: counts, states, seconds. They become one
// JSON object, so the values are numbers, strings, booleans, lists or maps.
type figures map[string]any

// check is one acceptance check.
type check struct {
	name  string
	about string // one line for the list of names
	// once marks a check that chooses its stores itself: it runs one time with
	// an empty env.Store whatever --store says.
	once bool
	// stores is what an absent --store means; "" means mysql and then postgres.
	stores string
	// run does the check on env.Store. What does not hold goes to env.Breaches;
	// an error means that the check could not be carried out, which fails the
	// run too. It leaves nothing behind unless env.Keep.
	run func(ctx context.Context, env *env) (figures, error)
}

// env is what a check gets. A check uses it from one goroutine, but for
// Breaches and Log.
type env struct {
	Store    string     // mysql, postgres, sqlite; "" for a check with once
	Seed     uint64     // of Rand
	Rand     *rand.Rand // fresh for each store, so that stores can be compared
	Keep     bool       // leave rows, queues and folders for inspection, and say where
	Dir      string     // a folder of this run's own; removed afterwards unless Keep
	Root     string     // the repository's root
	Breaches *breaches
	Log      *slog.Logger // for the person watching
}
