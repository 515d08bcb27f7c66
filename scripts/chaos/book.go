package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// book is what the records of all processes say, read as they grow. Safe for concurrent
// use.
type book struct {
	mu      sync.Mutex
	files   []*tail
	sends   map[string][]*send // by message id
	intents map[string]*intended
	calls   map[callKey]*call
	events  []event
	again   map[string][]event // rows stored again, by message id
	open    map[string]int     // sends without an outcome, by process
	acks    int                // outcomes acked
	numbers map[string][2]int  // goroutines, by process
	handled handled            // by consumers

	latencies []int64 // ns of calls that returned nil, not yet taken
}

// send is one send of one process.
type send struct {
	proc     string
	id       string
	at, done int64 // Unix ns; done 0: no outcome
	kind     string
	code     string
	late     bool // acked after all
}

type callKey struct {
	proc   string
	number string
}

// call is one call of a publisher.
type call struct {
	at, done int64
	verdict  verdict // "" while there is no result
	why      string
}

// intended is one message that some call wanted.
type intended struct {
	route string
	calls []*call
}

// event is one event of a send log, an outcome but an ack (word "outcome") or a result but
// ok (word "call").
type event struct {
	at   int64
	proc string
	word string
	text string
}

// The words of events that are made from other lines.
const (
	wordOutcome = "outcome"
	wordCall    = "call"
)

func newBook() *book {
	return &book{
		sends: map[string][]*send{}, again: map[string][]event{},
		intents: map[string]*intended{}, calls: map[callKey]*call{},
		open: map[string]int{}, numbers: map[string][2]int{}, handled: newHandled(),
	}
}

// follow adds the files of a process.
func (b *book) follow(spec childSpec, role string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files = append(b.files, &tail{path: spec.path(sendSuffix), take: b.sendLine(spec.Name)})
	switch role {
	case rolePublisher:
		b.files = append(b.files, &tail{path: spec.path(ledgerSuffix), take: b.ledgerLine(spec.Name)})
	case roleConsumer:
		b.files = append(b.files, &tail{path: spec.path(handledSuffix), take: b.handled.line(spec.Name)})
	}
}

// refresh reads what has been written since the last time.
func (b *book) refresh() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.files {
		if err := t.read(); err != nil {
			return fmt.Errorf("records: %w", err)
		}
	}
	return nil
}

// mark is a position for since.
func (b *book) mark() (int, error) {
	err := b.refresh()
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.events), err
}

// since counts the events after mark for which match says yes.
func (b *book) since(mark int, match func(event) bool) int {
	_ = b.refresh() // an unreadable record is an error at the end of the run
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, e := range b.events[mark:] {
		if match(e) {
			n++
		}
	}
	return n
}

// inFlight is how many sends of a process have no outcome.
func (b *book) inFlight(proc string) int {
	_ = b.refresh()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open[proc]
}

// acked is how many sends have been acked.
func (b *book) acked() int {
	_ = b.refresh()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.acks
}

// sendLine takes the lines of one process's send log.
func (b *book) sendLine(proc string) func(string) error {
	byNumber := map[string]*send{}
	return func(line string) error {
		f := strings.SplitN(line, " ", 6)
		if len(f) < 3 {
			return fmt.Errorf("%s: line %q", proc, line)
		}
		at, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			return fmt.Errorf("%s: line %q", proc, line)
		}
		switch {
		case f[0] == "S" && len(f) == 4:
			s := &send{proc: proc, id: f[3], at: at}
			byNumber[f[2]] = s
			b.sends[s.id] = append(b.sends[s.id], s)
			b.open[proc]++
		case f[0] == "D" && len(f) >= 5 && byNumber[f[2]] != nil:
			s := byNumber[f[2]]
			s.done, s.kind, s.code = at, f[3], f[4]
			b.open[proc]--
			if s.kind == "acked" {
				b.acks++
			} else {
				b.events = append(b.events, event{at, proc, wordOutcome, strings.Join(f[3:], " ")})
			}
			if s.kind != "unknown" {
				delete(byNumber, f[2])
			}
		case f[0] == "L" && byNumber[f[2]] != nil:
			byNumber[f[2]].late = true
		case f[0] == "E" && f[2] == wordGoroutines && len(f) == 4:
			return b.noteGoroutines(proc, f[3])
		case f[0] == "E" && f[2] == wordRestored && len(f) == 4:
			b.again[f[3]] = append(b.again[f[3]], event{at: at, proc: proc, word: wordRestored})
		case f[0] == "E":
			b.events = append(b.events, event{at, proc, f[2], strings.Join(f[3:], " ")})
		default:
			return fmt.Errorf("%s: line %q", proc, line)
		}
		return nil
	}
}

// ledgerLine takes the lines of one process's ledger.
func (b *book) ledgerLine(proc string) func(string) error {
	return func(line string) error {
		f := strings.SplitN(line, " ", 5)
		if len(f) < 4 {
			return fmt.Errorf("%s: line %q", proc, line)
		}
		at, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			return fmt.Errorf("%s: line %q", proc, line)
		}
		key := callKey{proc, f[2]}
		switch f[0] {
		case ledgerIntents:
			c := &call{at: at}
			b.calls[key] = c
			for part := range strings.SplitSeq(f[3], ",") {
				route, id, _ := strings.Cut(part, ":")
				m := b.intents[id]
				if m == nil {
					m = &intended{route: route}
					b.intents[id] = m
				}
				m.calls = append(m.calls, c)
			}
		case ledgerResults:
			c := b.calls[key]
			if c == nil {
				return fmt.Errorf("%s: result without intent: %q", proc, line)
			}
			c.done, c.verdict = at, verdict(f[3])
			if len(f) == 5 {
				c.why = f[4]
			}
			if c.verdict == verdictOK {
				b.latencies = append(b.latencies, c.done-c.at)
			} else {
				b.events = append(b.events, event{at, proc, wordCall, f[3] + " " + c.why})
			}
		}
		return nil
	}
}
