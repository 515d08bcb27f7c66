package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
)

// tail reads whole lines of a file that grows.
type tail struct {
	path   string
	offset int64
	rest   []byte // of a line that is not whole yet
	take   func(line string) error
}

// read takes the lines that are new. A file that does not exist yet has none.
func (t *tail) read() error {
	f, err := os.Open(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(t.offset, io.SeekStart); err != nil {
		return err
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	t.offset += int64(len(data))
	t.rest = append(t.rest, data...)
	for {
		end := bytes.IndexByte(t.rest, '\n')
		if end < 0 {
			return nil
		}
		if err := t.take(string(t.rest[:end])); err != nil {
			return err
		}
		t.rest = t.rest[end+1:]
	}
}
