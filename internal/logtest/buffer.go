// Package logtest keeps what goroutines of a test write at the same time.
package logtest

import (
	"bytes"
	"strings"
	"sync"
)

// Buffer is a buffer that several goroutines may use at once, as a log and a test do. The zero
// value is empty and ready.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// Read implements [io.Reader].
func (b *Buffer) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Read(p)
}

// String is what was written and not read.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Reset empties the buffer.
func (b *Buffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Reset()
}

// Lines are the lines of [Buffer.String] that contain part, in their order.
func (b *Buffer) Lines(part string) []string {
	var out []string
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, part) {
			out = append(out, line)
		}
	}
	return out
}
