package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/transmsg/transmsg/model"
)

// reporter prints results and counts them. Safe for concurrent use.
type reporter struct {
	out, err io.Writer
	json     bool
	quiet    bool // only what is not acked is printed
	terminal bool
	begin    time.Time

	mu      sync.Mutex
	total   int
	counts  map[verdict]int
	refused []string // ids that the broker did not take, at most refusedKept
	drawn   bool     // a progress line stands on the terminal
	outErr  error    // the first write that failed
	stopped chan struct{}
	done    sync.WaitGroup
}

// refusedKept bounds the ids that are looked up at the end.
const refusedKept = 10_000

// newReporter starts the progress display; close ends it.
func newReporter(a *app, stream bool) *reporter {
	r := &reporter{
		out: a.stdout, err: a.stderr, json: a.jsonOut, quiet: stream,
		terminal: isTerminal(a.secrets.out), begin: time.Now(), counts: map[verdict]int{},
		stopped: make(chan struct{}),
	}
	r.done.Go(r.progress)
	return r
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// jsonResult is the documented line of publish --json.
type jsonResult struct {
	Line    int    `json:"line"`
	ID      string `json:"id"`
	Outcome string `json:"outcome"`
	Code    string `json:"code"`
	Text    string `json:"text"`
}

// add counts and prints one result.
func (r *reporter) add(res result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total++
	r.counts[res.verdict]++
	if res.verdict.answered() && len(r.refused) < refusedKept {
		r.refused = append(r.refused, res.id)
	}
	if res.verdict.failed() && !r.json { // a mistake in the input or a failure: for a person, at once
		r.clear()
		fmt.Fprintf(r.err, "%s: %s: %s\n", res.name(r.quiet), res.verdict, res.text)
		return
	}
	var line string
	if r.json {
		b, err := json.Marshal(jsonResult{res.line, res.id, string(res.verdict), string(res.code), res.text})
		if err != nil { // strings and a number have no error path
			panic(err)
		}
		line = string(b)
	} else {
		if r.quiet && res.verdict == "acked" {
			return
		}
		line = fmt.Sprintf("%s %s", res.name(r.quiet), res.verdict)
		if detail := cause(string(res.code), res.text); detail != "" {
			line += " (" + detail + ")"
		}
	}
	r.clear()
	if _, err := fmt.Fprintln(r.out, line); err != nil && r.outErr == nil {
		r.outErr = fmt.Errorf("write results: %w", err)
	}
}

// name is how a result is called in lines for people.
func (res result) name(stream bool) string {
	switch {
	case stream && res.id == "":
		return fmt.Sprintf("line %d", res.line)
	case stream:
		return fmt.Sprintf("line %d %s", res.line, res.id)
	default:
		return res.id
	}
}

// progress redraws one line on a terminal and prints one now and then elsewhere.
func (r *reporter) progress() {
	every := 5 * time.Second
	if r.terminal {
		every = 200 * time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-r.stopped:
			return
		case <-tick.C:
		}
		r.mu.Lock()
		line := fmt.Sprintf("%s, %.0f/s", r.tally(), float64(r.total)/time.Since(r.begin).Seconds())
		if r.terminal {
			fmt.Fprintf(r.err, "\r\x1b[K%s", line)
			r.drawn = true
		} else {
			fmt.Fprintln(r.err, line)
		}
		r.mu.Unlock()
	}
}

// clear removes the progress line before another line is printed.
func (r *reporter) clear() {
	if r.drawn {
		fmt.Fprint(r.err, "\r\x1b[K")
		r.drawn = false
	}
}

// close ends the progress display and returns the first failed write.
func (r *reporter) close() error {
	close(r.stopped)
	r.done.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clear()
	return r.outErr
}

// tally is such as "12 messages: 10 acked, 2 returned".
func (r *reporter) tally() string {
	type count struct {
		verdict verdict
		n       int
	}
	var counts []count
	for v, n := range r.counts {
		counts = append(counts, count{v, n})
	}
	slices.SortFunc(counts, func(a, b count) int {
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.verdict, b.verdict))
	})
	words := make([]string, len(counts))
	for i, c := range counts {
		words[i] = fmt.Sprintf("%d %s", c.n, c.verdict)
	}
	noun := "messages"
	if r.total == 1 {
		noun = "message"
	}
	if len(words) == 0 {
		return fmt.Sprintf("%d %s", r.total, noun)
	}
	return fmt.Sprintf("%d %s: %s", r.total, noun, strings.Join(words, ", "))
}

// sums returns how many results failed, are kept (exit code 3), and wait in the store for
// a compensator.
func (r *reporter) sums() (failed, kept, waiting int) {
	for v, n := range r.counts {
		switch {
		case v.failed():
			failed += n
		case v.kept():
			kept += n
		}
		if !v.failed() && v != "acked" && v != verdictDead {
			waiting += n
		}
	}
	return failed, kept, waiting
}

// stored is how many messages the store has taken.
func (r *reporter) stored() int {
	n := r.total
	for v, c := range r.counts {
		if v.failed() {
			n -= c
		}
	}
	return n
}

// cause is a code with its text, for people; the broker's texts often begin with the code.
func cause(code, text string) string { return model.CauseCode(code).Cause(text) }
