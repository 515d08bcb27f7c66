package transmsgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// ErrPastTx is the error of a call past the open transaction: the publisher, the *sql.DB or
// the outer *gorm.DB is used where the transaction's own handle is meant. In production the
// row would stay when the transaction is rolled back, or on SQLite the call would wait for
// the transaction that waits for it. The test has failed by then, and the text names the
// right call.
var ErrPastTx = errors.New("transmsgtest: a call past the open transaction")

// misuse knows which goroutine has a transaction open, and fails the test when the same
// goroutine calls past it. What a goroutine does that the transaction's function started
// is not seen.
type misuse struct {
	mu    sync.Mutex
	tb    testing.TB
	ended bool              // the test may not be told any more
	open  map[string]string // by goroutine: where its transaction began
}

// begin notes that the calling goroutine has a transaction open until the returned function.
func (m *misuse) begin() (end func()) {
	id := goroutine()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open[id] = caller()
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.open, id)
	}
}

// check fails the test when the calling goroutine has a transaction open. The library's own
// looks, such as that at a stored id, come from other goroutines.
func (m *misuse) check(what, instead string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	began, ok := m.open[goroutine()]
	if !ok {
		return nil
	}
	err := fmt.Errorf("%w: %s at %s, inside the transaction that began at %s: use %s. "+
		"Who means it (publisher.OutsideTx) tests that on a server, since SQLite has one writer",
		ErrPastTx, what, caller(), began, instead)
	if !m.ended {
		m.tb.Error(err)
	}
	return err
}

func (m *misuse) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
}

// store is the real store, behind a look at who publishes.
type store struct {
	*gormstore.Store
	misuse *misuse
}

// Insert is what Publish and PublishBatch call outside of a transaction.
func (s store) Insert(ctx context.Context, rows []model.Draft) ([]model.Stored, error) {
	if err := s.misuse.check("Publish of the Publisher", "out.Publish"); err != nil {
		return nil, err
	}
	return s.Store.Insert(ctx, rows)
}

// goroutine names the calling goroutine: who has begun a transaction and asks for another
// connection waits for itself, and nothing else tells that it is the same.
func goroutine() string {
	var head [64]byte
	text, _, _ := bytes.Cut(head[:runtime.Stack(head[:], false)], []byte(" ["))
	return string(text)
}

const module = "github.com/transmsg/transmsg/"

// caller is the file and line of the code under test: the first that is neither the
// library's, nor gorm's, nor the standard library's.
func caller() string {
	at := "an unknown line"
	frames(func(f runtime.Frame) bool {
		ours := strings.HasPrefix(f.Function, module) && !strings.HasSuffix(f.File, "_test.go")
		if ours || strings.HasPrefix(f.Function, "database/sql.") || strings.HasPrefix(f.Function, "gorm.io/") {
			return true
		}
		at = fmt.Sprintf("%s:%d", f.File, f.Line)
		return false
	})
	return at
}

// frames calls f for each caller, inner ones first, until it returns false.
func frames(f func(runtime.Frame) bool) {
	var counters [64]uintptr
	stack := runtime.CallersFrames(counters[:runtime.Callers(3, counters[:])])
	for {
		frame, more := stack.Next()
		if !f(frame) || !more {
			return
		}
	}
}
