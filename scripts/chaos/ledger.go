package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/transmsg/transmsg/model"
)

// verdict is what a caller knows once its call has returned.
type verdict string

const (
	verdictOK     verdict = "ok"    // nil: the message is the library's
	verdictNo     verdict = "no"    // certain: nothing was stored
	verdictMaybe  verdict = "maybe" // neither
	whyIntended           = "intended"
	whyShutdown           = "closed"
	ledgerIntents         = "I"
	ledgerResults         = "R"
)

// ledger is what the callers of one process wanted and were told, in a file outside any
// database. A call's intent is on disk before the call:
//
//	I <time> <call> <route>:<id>[,<route>:<id>...]
//	R <time> <call> ok|no|maybe <why>
type ledger struct {
	f *os.File

	mu      sync.Mutex
	buf     []byte
	calls   int64
	flushMu sync.Mutex // held by the one who syncs for all
	synced  int64
}

func openLedger(path string) (*ledger, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &ledger{f: f}, nil
}

func (l *ledger) close() error { return l.f.Close() }

// intend writes a call's messages down and returns its number once they are on disk.
// Concurrent callers share one sync.
func (l *ledger) intend(ms []intent) (int64, error) {
	parts := make([]string, len(ms))
	for i, m := range ms {
		parts[i] = m.route.name + ":" + m.msg.ID
	}
	l.mu.Lock()
	l.calls++
	call := l.calls
	l.buf = fmt.Appendf(l.buf, "%s %d %d %s\n", ledgerIntents, time.Now().UnixNano(), call, strings.Join(parts, ","))
	l.mu.Unlock()

	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	if l.synced >= call {
		return call, nil
	}
	l.mu.Lock()
	out, upTo := l.buf, l.calls
	l.buf = nil
	l.mu.Unlock()
	if _, err := l.f.Write(out); err != nil {
		return 0, fmt.Errorf("ledger: %w", err)
	}
	if err := l.f.Sync(); err != nil {
		return 0, fmt.Errorf("ledger: %w", err)
	}
	l.synced = upTo
	return call, nil
}

// result writes down what the caller was told. It is not synced: the machine does not
// die, and a process that does leaves an ambiguous call.
func (l *ledger) result(call int64, v verdict, why string) error {
	_, err := fmt.Fprintf(l.f, "%s %d %d %s %s\n", ledgerResults, time.Now().UnixNano(), call, v, oneLine(why))
	return err
}

// intent is one message and where it goes.
type intent struct {
	msg   model.Message
	route route
}

func messagesOf(is []intent) []model.Message {
	ms := make([]model.Message, len(is))
	for i := range is {
		ms[i] = is[i].msg
	}
	return ms
}
