package main

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/transmsg/transmsg/internal/logtest"
)

// TestMain makes this test binary answer as the command transmsg too, for scripts and for
// tests that need a process.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"transmsg": main})
}

// leakChecked fails a run whose tests pass and leave goroutines behind.
type leakChecked struct{ m *testing.M }

// Run implements testscript.TestingM.
func (l leakChecked) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	return code
}

// runIn runs one command line in this process, with nothing on stdin.
func runIn(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs logtest.Buffer
	code = run(context.Background(), args, &logtest.Buffer{}, &out, &errs)
	return code, out.String(), errs.String()
}
