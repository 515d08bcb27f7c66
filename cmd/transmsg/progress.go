package main

import (
	"fmt"
	"io"
	"time"
)

// progress shows how far an act has come: one line redrawn on a terminal, a line now and
// then elsewhere. It is used by one goroutine.
type progress struct {
	out      io.Writer
	noun     string // of what
	word     string // what was done, such as "replayed"
	terminal bool
	last     time.Time
	drawn    bool
}

func newProgress(a *app, noun, word string) *progress {
	return &progress{out: a.stderr, noun: noun, word: word, terminal: isTerminal(a.secrets.out), last: time.Now()}
}

// set is called with the total so far.
func (p *progress) set(done int) {
	every := 5 * time.Second
	if p.terminal {
		every = 200 * time.Millisecond
	}
	if time.Since(p.last) < every {
		return
	}
	p.last = time.Now()
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K%s %s", counted(done, p.noun), p.word)
		p.drawn = true
		return
	}
	fmt.Fprintf(p.out, "%s %s\n", counted(done, p.noun), p.word)
}

// close removes the line.
func (p *progress) close() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.drawn = false
	}
}
