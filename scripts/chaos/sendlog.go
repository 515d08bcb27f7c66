package main

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
)

// The files of a process, named for it.
const (
	sendSuffix    = ".sends"
	ledgerSuffix  = ".ledger"
	controlSuffix = ".control"
	outputSuffix  = ".log"
)

// The words of the events in a send log.
const (
	wordConnected     = "connected"
	wordDisconnected  = "disconnected"
	wordBlocked       = "blocked"
	wordChannelClosed = "channel-closed"
	wordStoreError    = "store-error"
	wordRestored      = "restored" // the row of a message that came back was gone and is stored again
	wordLockLost      = "lock-lost"
	wordRedis         = "redis"
	wordStopped       = "stopped"    // the process is about to end by itself
	wordGoroutines    = "goroutines" // their number, about each second
)

// sendLog is the record of what one process sent. Each line is one write to the kernel,
// which keeps it over a kill -9 of the process:
//
//	S <time> <number> <id>                     about to be handed to the sender
//	D <time> <number> <kind> <code> <text>     its outcome
//	L <time> <number>                          acked after all
//	E <time> <word> <text>                     an event
//
// Times are Unix nanoseconds.
type sendLog struct {
	f      *os.File
	number atomic.Int64
}

func openSendLog(path string) (*sendLog, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &sendLog{f: f}, nil
}

func (l *sendLog) close() error { return l.f.Close() }

// line writes one line. A record with holes would prove nothing, so a process that cannot
// write it ends.
func (l *sendLog) line(format string, args ...any) {
	if _, err := l.f.WriteString(fmt.Sprintf(format, args...) + "\n"); err != nil {
		panic(fmt.Sprintf("send log: %v", err))
	}
}

func (l *sendLog) event(word, text string) {
	l.line("E %d %s %s", time.Now().UnixNano(), word, oneLine(text))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// watched is the product's sender with each send and its outcome written down.
type watched struct {
	*confirms.Sender
	book   *sendLog
	rewind *control
}

// Send implements the senders of publisher and compensator.
func (w *watched) Send(s confirms.Send) {
	n := w.book.number.Add(1)
	w.book.line("S %d %d %s", time.Now().UnixNano(), n, s.Message.ID)
	s.Handler = &watchedHandler{Handler: s.Handler, book: w.book, number: n}
	if step := w.rewind.get().ClockStep; step != 0 {
		s.Since = wallStepped(s.Since, -step)
	}
	w.Sender.Send(s)
}

type watchedHandler struct {
	confirms.Handler
	book   *sendLog
	number int64
}

// Done writes the outcome down before the product acts on it.
func (h *watchedHandler) Done(o model.Outcome) {
	h.book.line("D %d %d %s %s %s", time.Now().UnixNano(), h.number, o.Kind, word(string(o.Code)), oneLine(o.Text))
	h.Handler.Done(o)
}

// LateAck is Done's, for an ack after a timeout.
func (h *watchedHandler) LateAck() {
	h.book.line("L %d %d", time.Now().UnixNano(), h.number)
	h.Handler.LateAck()
}

// word keeps an empty field's place.
func word(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
