package main

import "testing"

// Without a broker and a database there is not more to test here.
func TestRunNeedsADatabase(t *testing.T) {
	t.Setenv("DSN", "no database")
	if run(t.Context()) == nil {
		t.Error("no error")
	}
}
