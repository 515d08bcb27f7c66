package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/store/gormstore"
)

const (
	// maxImportLine holds the largest body that a compensator sends, in base64.
	maxImportLine = 192 << 20
	// One call to the store takes so many rows, or the row that passes so many bytes.
	importRows  = 500
	importBytes = 16 << 20
)

// bindImport adds flags and code of a verb that stores the lines of one file.
func (a *app) bindImport(
	cmd *cobra.Command, read func(ctx context.Context, s *gormstore.Store, lines *lineReader, actor string) error,
) {
	var store storeOptions
	var who actorFlags
	store.bind(cmd.Flags(), "required")
	who.bind(cmd.Flags())
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("needs one file, - for stdin, got %d arguments", len(args))
		}
		return nil
	}
	cmd.RunE = a.verb(func(ctx context.Context, args []string) error {
		actor, err := who.name()
		if err != nil {
			return err
		}
		in, closer, err := a.open("FILE", args[0])
		if err != nil {
			return err
		}
		defer closer()
		s, err := a.openStore(ctx, &store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		return read(ctx, s, newLineReader(in, maxImportLine), actor)
	})
}

// importing says how the lines of an export are stored, whatever the table.
type importing[T any] struct {
	noun  string
	parse func(line []byte) (T, error)
	size  func(*T) int
	// store returns how many were not there before and are committed, also with an error.
	store func([]T) (int, error)
}

// importAll stores the lines in batches. It returns how many were stored and how many were read.
func importAll[T any](a *app, lines *lineReader, i importing[T]) (imported, read int, err error) {
	p := newProgress(a, i.noun, "imported")
	defer p.close()
	for end := false; !end; {
		first := lines.number + 1
		rows, err := i.batch(lines)
		if end = errors.Is(err, io.EOF); err != nil && !end {
			return imported, read, fmt.Errorf("%w; %s imported before", err, counted(imported, i.noun))
		}
		n, err := i.store(rows)
		imported, read = imported+n, read+len(rows)
		if err != nil {
			last := lines.number
			if end { // the line that is not there
				last--
			}
			return imported, read, fmt.Errorf("lines %d to %d: %w; %s imported before, and a repeat passes over them",
				first, last, err, counted(imported, i.noun))
		}
		p.set(imported)
	}
	return imported, read, nil
}

// batch reads the next rows. Together with io.EOF come the last ones.
func (i *importing[T]) batch(lines *lineReader) ([]T, error) {
	var rows []T
	for size := 0; len(rows) < importRows && size < importBytes; {
		line, err := lines.next()
		if err != nil {
			return rows, importError(lines, err)
		}
		row, err := i.parse(line)
		if err != nil {
			return nil, importError(lines, err)
		}
		size += i.size(&row)
		rows = append(rows, row)
	}
	return rows, nil
}

func importError(lines *lineReader, err error) error {
	if errors.Is(err, io.EOF) {
		return err
	}
	return fmt.Errorf("line %d: %w", lines.number, err)
}

// decodeExport reads one line that the verb has printed, after its checksum. It is strict: what it let through would be
// stored.
func decodeExport(line []byte, verb string, into any) error {
	line, err := checked(line)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("not a line of `%s`: %w", verb, syntaxOnly(err))
	}
	if dec.More() {
		return errors.New("more follows after the JSON object: one object a line")
	}
	return nil
}

// syntaxOnly drops an end of file from a line that ends too early: the file goes on.
func syntaxOnly(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the line ends too early")
	}
	return err
}
