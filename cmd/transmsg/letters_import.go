package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

func (a *app) lettersImportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Store the dead letters of an export again, byte for byte",
		Long: "Reads the lines of `dead-letters export`, - is stdin, and stores each dead letter as it was, with\n" +
			"status, counts and times. A letter that is stored already with equal content is passed over, so a\n" +
			"repeat is harmless; one with other content ends the import.",
		Example: "  transmsg dead-letters import parked.jsonl",
	}
	a.bindImport(cmd, func(ctx context.Context, s *gormstore.Store, lines *lineReader, actor string) error {
		n, read, err := importAll(a, lines, importing[model.DeadLetter]{
			noun: deadLetter, parse: importLetter, size: func(l *model.DeadLetter) int { return l.Size },
			store: func(list []model.DeadLetter) (int, error) { return s.ImportLetters(ctx, list, actor) },
		})
		if err != nil {
			return err
		}
		if a.jsonOut {
			return printJSON(a.stdout, jsonLetterImport{"import", true, n, read - n, actor})
		}
		fmt.Fprintf(a.stdout, "%s imported as %s, %d were there already\n", counted(n, deadLetter), actor, read-n)
		return nil
	})
	return cmd
}

// jsonLetterImport is the documented result of import.
type jsonLetterImport struct {
	Verb        string `json:"verb"`
	Applied     bool   `json:"applied"`
	DeadLetters int    `json:"dead_letters"`
	Passed      int    `json:"passed_over"`
	Actor       string `json:"actor"`
}

// importLetter is strict: what it let through would be stored.
func importLetter(line []byte) (model.DeadLetter, error) {
	var j jsonLetterExport
	if err := decodeExport(line, "dead-letters export", &j); err != nil {
		return model.DeadLetter{}, err
	}
	if j.Queue == nil || j.Properties == nil {
		return model.DeadLetter{},
			errors.New("not a line of `dead-letters export`: it has no queue_base64 or properties_base64")
	}
	return j.letter(), nil
}
