// Command accept runs one acceptance check against real servers and prints one
// line of JSON: name, seed, pass, breaches, and per store the measured figures.
// Everything meant for a person goes to standard error. scripts/accept.sh makes
// sure that the servers answer, builds it and runs it.
//
// A check is one file with one function that returns a check; [registry] lists
// them. A check asserts counts, states and order through [breaches], reports
// durations as figures only, and takes every random choice from env.Rand, so
// that the seed repeats a run.
package main
