package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds one line of --jsonl, in bytes. The largest default body (4 MiB) fits with
// every byte escaped.
const maxLine = 32 << 20

// errLongLine: the line was read to its end and dropped; the next one can be read.
var errLongLine = errors.New("line too long")

// lineReader yields the lines of a stream with their numbers, within a bound on memory.
type lineReader struct {
	r      *bufio.Reader
	limit  int
	number int // of the line last returned, from 1
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// next returns the next line that is not blank, without its end; the caller owns it. io.EOF
// is the end.
func (l *lineReader) next() ([]byte, error) {
	for {
		line, err := l.read()
		if err != nil {
			return nil, err
		}
		if l.number == 1 {
			line = bytes.TrimPrefix(line, []byte("\uFEFF")) // some editors' mark of UTF-8
		}
		if len(bytes.TrimSpace(line)) > 0 {
			return line, nil
		}
	}
}

func (l *lineReader) read() ([]byte, error) {
	l.number++
	var line []byte
	long := false
	for {
		part, err := l.r.ReadSlice('\n')
		if len(line)+len(part) > l.limit+1 {
			long, line = true, nil
		}
		if !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case long:
			return nil, fmt.Errorf("%w: over %d bytes", errLongLine, l.limit)
		case err != nil && len(line) == 0:
			return nil, io.EOF
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}
