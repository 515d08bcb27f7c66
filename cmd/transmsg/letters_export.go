package main

import (
	"bufio"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// jsonLetterExport is the documented line of export and import: the whole dead letter. Names and content are bytes in
// base64, times Unix milliseconds.
type jsonLetterExport struct {
	ID           string              `json:"id"`
	WireID       []byte              `json:"message_id_base64"` // null where it has none
	Queue        []byte              `json:"queue_base64"`
	Exchange     []byte              `json:"exchange_base64"`
	RoutingKey   []byte              `json:"routing_key_base64"`
	Status       string              `json:"status"`
	Service      string              `json:"service"`
	Key          string              `json:"key"`
	Cause        string              `json:"cause"`
	Error        string              `json:"error"`
	Count        int64               `json:"count"`
	Attempts     int                 `json:"attempts"`
	Properties   []byte              `json:"properties_base64"`
	Body         []byte              `json:"body_base64"`
	Original     *jsonLetterOriginal `json:"original"` // null where it was not edited
	Replays      int                 `json:"replays"`
	Parent       string              `json:"parent"`
	ReplayID     string              `json:"replay_id"`
	Unreplayable string              `json:"unreplayable"`
	Version      int                 `json:"version"`
	Epoch        int                 `json:"epoch"`
	FirstAt      int64               `json:"first_failed_at_ms"`
	LastAt       int64               `json:"last_failed_at_ms"`
	CreatedAt    int64               `json:"created_at_ms"`
	UpdatedAt    int64               `json:"updated_at_ms"`
	ReplayedAt   int64               `json:"replayed_at_ms"`
	ErasedAt     int64               `json:"erased_at_ms"`
}

type jsonLetterOriginal struct {
	Properties []byte `json:"properties_base64"`
	Body       []byte `json:"body_base64"`
}

func letterExportJSON(l *model.DeadLetter) jsonLetterExport {
	j := jsonLetterExport{
		ID: l.ID, WireID: l.WireID, Queue: []byte(l.Queue), Exchange: []byte(l.Exchange),
		RoutingKey: []byte(l.RoutingKey), Status: string(l.Status), Service: l.Service, Key: l.Key, Cause: l.Cause,
		Error: l.Text, Count: l.Count, Attempts: l.Attempts, Properties: notNil(l.Properties), Body: notNil(l.Payload),
		Replays: l.Replays, Parent: l.Parent, ReplayID: l.ReplayID, Unreplayable: l.Unreplayable, Version: l.Version,
		Epoch: l.Epoch, FirstAt: l.FirstAt, LastAt: l.LastAt, CreatedAt: l.CreatedAt, UpdatedAt: l.UpdatedAt,
		ReplayedAt: l.ReplayedAt, ErasedAt: l.ErasedAt,
	}
	if l.Original != nil {
		j.Original = &jsonLetterOriginal{notNil(l.Original.Properties), notNil(l.Original.Payload)}
	}
	return j
}

func (j *jsonLetterExport) letter() model.DeadLetter {
	l := model.DeadLetter{
		ID: j.ID, WireID: j.WireID, Queue: string(j.Queue), Exchange: string(j.Exchange),
		RoutingKey: string(j.RoutingKey),
		Status:     model.LetterStatus(j.Status), Service: j.Service, Key: j.Key, Cause: j.Cause, Text: j.Error,
		Count: j.Count, Attempts: j.Attempts, Properties: j.Properties, Payload: j.Body, Size: len(j.Properties) +
			len(j.Body),
		Replays: j.Replays, Parent: j.Parent, ReplayID: j.ReplayID, Unreplayable: j.Unreplayable, Version: j.Version,
		Epoch: j.Epoch, FirstAt: j.FirstAt, LastAt: j.LastAt, CreatedAt: j.CreatedAt, UpdatedAt: j.UpdatedAt,
		ReplayedAt: j.ReplayedAt, ErasedAt: j.ErasedAt,
	}
	if j.Original != nil {
		l.Original = &model.LetterContent{Properties: j.Original.Properties, Payload: j.Original.Body}
	}
	return l
}

func (a *app) lettersExportCommand() *cobra.Command {
	var store storeOptions
	var which letterSelectionFlags
	var who actorFlags
	cmd := &cobra.Command{
		Use:   "export [ID...]",
		Short: "Print dead letters whole, as JSON lines, for `dead-letters import`",
		Long: "Prints each dead letter as one line of JSON with everything the store keeps of it, names and\n" +
			"content byte for byte in base64, and a checksum. Nothing is changed, but each letter's history\n" +
			"says who read it. With ids and a filter, both must match.",
		Example: "  transmsg dead-letters export --queue payments --status PARKED > parked.jsonl",
	}
	store.bind(cmd.Flags(), "required")
	which.bind(cmd.Flags(), "default all")
	who.bind(cmd.Flags())
	cmd.RunE = a.verb(func(ctx context.Context, ids []string) error {
		sel, err := which.selection(ids)
		if err != nil {
			return err
		}
		actor, err := who.name()
		if err != nil {
			return err
		}
		s, err := a.openStore(ctx, &store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		return a.exportLetters(ctx, s, lettersOf(sel), actor)
	})
	return cmd
}

// lettersOf is the selection, or where it is --all one for each status: a selection must name something.
func lettersOf(sel model.LetterSelection) []model.LetterSelection {
	if len(sel.IDs) > 0 || sel.Filter != (model.LetterFilter{}) {
		return []model.LetterSelection{sel}
	}
	var out []model.LetterSelection
	for _, status := range model.LetterStatuses() {
		sel.Filter.Status = status
		out = append(out, sel)
	}
	return out
}

func (a *app) exportLetters(
	ctx context.Context, s *gormstore.Store, selections []model.LetterSelection, actor string,
) error {
	for _, sel := range selections {
		// A part that looks like the whole would be a trap, so it is refused before.
		p, err := s.SelectLetters(ctx, sel, 0)
		if err != nil {
			return err
		}
		if p.More {
			return fmt.Errorf("more than %d dead letters match: raise --max, or export in parts by --queue, "+
				"--cause or --status", sel.Max)
		}
	}
	out := bufio.NewWriterSize(a.stdout, 64<<10)
	n := 0
	p := newProgress(a, deadLetter, "exported")
	defer p.close()
	for _, sel := range selections {
		err := s.ExportLetters(ctx, sel, func(l model.DeadLetter) error {
			if err := s.AddEvent(ctx, readLetter(&l, actor)); err != nil {
				return fmt.Errorf("record the reader of %s: %w", l.ID, err)
			}
			n++
			p.set(n)
			return printExport(out, letterExportJSON(&l))
		})
		if err != nil {
			return fmt.Errorf("after %s: %w", counted(n, deadLetter), err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write dead letters: %w", err)
	}
	fmt.Fprintf(a.stderr, "%s exported as %s\n", counted(n, deadLetter), actor)
	return nil
}
