package main

import (
	"errors"
	"os"
	"testing"
)

// The code that each fault replaces is there, so that a change of the code also changes the
// list of faults.
func TestNoFaultIsStale(t *testing.T) {
	if err := os.Chdir("../.."); err != nil {
		t.Fatal(err)
	}
	list := all()
	if len(list) < 30 {
		t.Fatalf("%d faults, want at least 30", len(list))
	}
	for _, m := range list {
		if _, err := m.overlay(t.TempDir()); errors.Is(err, errStale) {
			t.Errorf("%s: %v", m.name, err)
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
