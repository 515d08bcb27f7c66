package main

import (
	"fmt"
	"strconv"
	"strings"
)

// handled is what consumers wrote down. Its book's mutex guards it.
type handled struct {
	calls   map[string][]*handling // by message id
	open    map[string]int         // calls without an end, by process
	marks   map[string]bool
	changed map[string]bool // bodies
}

// handling is one handler call.
type handling struct {
	proc        string
	at, done    int64 // Unix ns; done 0: no end
	attempt     int
	redelivered bool
	again       bool // the same delivery as the call before, which was put off
	answer      string
}

func newHandled() handled {
	return handled{
		calls: map[string][]*handling{}, open: map[string]int{}, marks: map[string]bool{}, changed: map[string]bool{},
	}
}

// line takes the lines of one process.
func (h *handled) line(proc string) func(string) error {
	byNumber := map[string]*handling{}
	last := map[string]*handling{} // by id
	return func(line string) error {
		f := strings.Fields(line)
		if len(f) < 3 {
			return fmt.Errorf("%s: line %q", proc, line)
		}
		at, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			return fmt.Errorf("%s: line %q", proc, line)
		}
		switch {
		case f[0] == "B" && len(f) == 6:
			attempt, err := strconv.Atoi(f[4])
			if err != nil {
				return fmt.Errorf("%s: line %q", proc, line)
			}
			c := &handling{proc: proc, at: at, attempt: attempt, redelivered: f[5] == wordRedelivered}
			if l := last[f[3]]; l != nil && l.attempt == attempt && (l.answer == "busy" || l.answer == "unavailable") {
				c.again = true
			}
			byNumber[f[2]], last[f[3]] = c, c
			h.calls[f[3]] = append(h.calls[f[3]], c)
			h.open[proc]++
		case f[0] == "E" && len(f) == 4 && byNumber[f[2]] != nil:
			c := byNumber[f[2]]
			c.done, c.answer = at, f[3]
			delete(byNumber, f[2])
			h.open[proc]--
		case f[0] == "M":
			h.marks[f[2]] = true
		case f[0] == "C":
			h.changed[f[2]] = true
		default:
			return fmt.Errorf("%s: line %q", proc, line)
		}
		return nil
	}
}

// handling is how many handler calls of a process have no end.
func (b *book) handling(proc string) int {
	_ = b.refresh() // an unreadable record is an error at the end of the run
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.handled.open[proc]
}

// markHandled says whether a consumer was given the mark.
func (b *book) markHandled(id string) bool {
	_ = b.refresh()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.handled.marks[id]
}

// unfinished is how many messages were handled and have no effect yet, by their answers.
func (b *book) unfinished() (n int) {
	_ = b.refresh()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, calls := range b.handled.calls {
		if !finished(calls) {
			n++
		}
	}
	return n
}

func finished(calls []*handling) bool {
	for _, c := range calls {
		if c.answer == "done" || c.answer == "skipped" {
			return true
		}
	}
	return false
}
