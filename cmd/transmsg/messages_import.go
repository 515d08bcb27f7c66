package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

const (
	// maxImportLine holds the largest body that a compensator sends, in base64.
	maxImportLine = 192 << 20
	// One call to the store takes so many rows, or the row that passes so many bytes.
	importRows  = 500
	importBytes = 16 << 20
)

func (a *app) importCommand() *cobra.Command {
	var store storeOptions
	var who actorFlags
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Store the messages of an export again, byte for byte",
		Long: "Reads the lines of `messages export`, - is stdin, and stores each message as it was, with status,\n" +
			"counts and times; READY ones are sent when they are due. A message that is stored already with equal\n" +
			"content is passed over, so a repeat is harmless; one with other content ends the import.",
		Example: "  transmsg messages import dead.jsonl\n" +
			"  ssh old transmsg messages export --all | transmsg messages import -",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("needs one file, - for stdin, got %d arguments", len(args))
			}
			return nil
		},
	}
	store.bind(cmd.Flags(), "required")
	who.bind(cmd.Flags())
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
		return a.importRows(ctx, s, newLineReader(in, maxImportLine), actor)
	})
	return cmd
}

// jsonImport is the documented result of import.
type jsonImport struct {
	Verb     string `json:"verb"`
	Applied  bool   `json:"applied"`
	Messages int    `json:"messages"`
	Passed   int    `json:"passed_over"`
	Actor    string `json:"actor"`
}

func (a *app) importRows(ctx context.Context, s *gormstore.Store, lines *lineReader, actor string) error {
	p := newProgress(a, message, "imported")
	defer p.close()
	imported, read := 0, 0
	for end := false; !end; {
		first := lines.number + 1
		rows, err := importBatch(lines)
		if end = errors.Is(err, io.EOF); err != nil && !end {
			return fmt.Errorf("%w; %s imported before", err, count(imported))
		}
		n, err := s.Import(ctx, rows, actor)
		imported, read = imported+n, read+len(rows)
		if err != nil {
			last := lines.number
			if end { // the line that is not there
				last--
			}
			return fmt.Errorf("lines %d to %d: %w; %s imported before, and a repeat passes over them", first,
				last, err, count(imported))
		}
		p.set(imported)
	}
	p.close()
	if a.jsonOut {
		return printJSON(a.stdout, jsonImport{"import", true, imported, read - imported, actor})
	}
	fmt.Fprintf(a.stdout, "%s imported as %s, %d were there already\n", count(imported), actor, read-imported)
	return nil
}

// importBatch reads the next rows. Together with io.EOF come the last ones.
func importBatch(lines *lineReader) ([]model.TransMessage, error) {
	var rows []model.TransMessage
	for size := 0; len(rows) < importRows && size < importBytes; {
		line, err := lines.next()
		if err != nil {
			return rows, importError(lines, err)
		}
		row, err := importLine(line)
		if err != nil {
			return nil, importError(lines, err)
		}
		size += row.Size
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

// importLine is strict: what it let through would be stored.
func importLine(line []byte) (model.TransMessage, error) {
	line, err := checked(line)
	if err != nil {
		return model.TransMessage{}, err
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	var j jsonExport
	if err := dec.Decode(&j); err != nil {
		return model.TransMessage{}, fmt.Errorf("not a line of `messages export`: %w", syntaxOnly(err))
	}
	if dec.More() {
		return model.TransMessage{}, errors.New("more follows after the JSON object: one object a line")
	}
	if len(j.Properties) == 0 {
		return model.TransMessage{}, errors.New("not a line of `messages export`: it has no properties_base64")
	}
	return j.row(), nil
}

// syntaxOnly drops an end of file from a line that ends too early: the file goes on.
func syntaxOnly(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the line ends too early")
	}
	return err
}
