package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

func (a *app) importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Store the messages of an export again, byte for byte",
		Long: "Reads the lines of `messages export`, - is stdin, and stores each message as it was, with status,\n" +
			"counts and times; READY ones are sent when they are due. A message that is stored already with equal\n" +
			"content is passed over, so a repeat is harmless; one with other content ends the import.",
		Example: "  transmsg messages import dead.jsonl\n" +
			"  ssh old transmsg messages export --all | transmsg messages import -",
	}
	a.bindImport(cmd, a.importRows)
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

// importRows stores the messages of an export.
func (a *app) importRows(ctx context.Context, s *gormstore.Store, lines *lineReader, actor string) error {
	n, read, err := importAll(a, lines, importing[model.TransMessage]{
		noun: message, parse: importLine, size: func(t *model.TransMessage) int { return t.Size },
		store: func(rows []model.TransMessage) (int, error) { return s.Import(ctx, rows, actor) },
	})
	if err != nil {
		return err
	}
	if a.jsonOut {
		return printJSON(a.stdout, jsonImport{"import", true, n, read - n, actor})
	}
	fmt.Fprintf(a.stdout, "%s imported as %s, %d were there already\n", count(n), actor, read-n)
	return nil
}

// importLine is strict: what it let through would be stored.
func importLine(line []byte) (model.TransMessage, error) {
	var j jsonExport
	if err := decodeExport(line, "messages export", &j); err != nil {
		return model.TransMessage{}, err
	}
	if len(j.Properties) == 0 {
		return model.TransMessage{}, errors.New("not a line of `messages export`: it has no properties_base64")
	}
	return j.row(), nil
}
