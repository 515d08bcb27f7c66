package main

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain lets the processes of a run be this test's own binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		main()
	}
	goleak.VerifyTestMain(m)
}

// TestShortRun is a run of about a minute, with the four faults that have hurt others most.
func TestShortRun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	status := chaos(t.Context(), []string{
		"--seed", "1", "--seconds", "45", "--rate", "150", "--store", "mysql",
		"--only", "broker-kill,database-kill,publisher-kill,acks-swallowed", "--untimed",
	}, &out, t.Output())
	var got summary
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	if status != exitPass || got.Lost+got.Phantom+got.Unexplained != 0 || got.Faults != 4 || got.Delivered == 0 {
		t.Errorf("exit %d: %s", status, &out)
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
