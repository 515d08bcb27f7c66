package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

func (a *app) lettersListCommand() *cobra.Command {
	var store storeOptions
	var flags letterFilterFlags
	var limit int
	var after string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, oldest id first",
		Example: "  transmsg dead-letters list --status PARKED\n" +
			"  transmsg dead-letters list --queue payments --json",
		Args: noArgs,
	}
	fs := cmd.Flags()
	store.bind(fs, "required")
	flags.bind(fs, "default all")
	bindPage(fs, &limit, &after)
	cmd.RunE = a.verb(func(ctx context.Context, _ []string) error {
		f, err := flags.filter()
		if err != nil {
			return err
		}
		if f.Limit, f.After = limit, after; limit < 1 || limit > maxLimit {
			return usagef("--limit %d must be 1 to %d", limit, maxLimit)
		}
		s, err := a.openStore(ctx, &store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		return a.lettersList(ctx, s, f)
	})
	return cmd
}

// lettersList prints one page.
func (a *app) lettersList(ctx context.Context, s *gormstore.Store, f model.LetterFilter) error {
	page, err := s.ListLetters(ctx, f)
	if err != nil {
		return err
	}
	if len(page) == f.Limit {
		last := f
		last.Limit, last.After = 1, page[len(page)-1].ID
		next, err := s.ListLetters(ctx, last)
		if err != nil {
			return err
		}
		if len(next) > 0 { // also with --json: on stderr, since stdout is for rows alone
			defer fmt.Fprintf(a.stderr, "more dead letters match: --after %s\n", last.After)
		}
	}
	if a.jsonOut {
		for i := range page {
			if err := printJSON(a.stdout, letterJSON(&page[i])); err != nil {
				return err
			}
		}
		return nil
	}
	if len(page) == 0 {
		fmt.Fprintln(a.stdout, "no dead letter matches; counts: transmsg dead-letters groups")
		return nil
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	return printLetters(a.stdout, page, now)
}

// printLetters prints a table for people; the ages are by the database's clock.
func printLetters(out io.Writer, page []model.DeadLetter, now int64) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATUS\tQUEUE\tCAUSE\tSERVICE\tKEY\tMESSAGE ID\tREPLAYS\tAGE\tNOTE")
	for i := range page {
		l := &page[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", l.ID, l.Status, readable(l.Queue), readable(l.Cause),
			readable(l.Service), readable(l.Key), readable(string(l.WireID)), l.Replays, age(l.CreatedAt, now),
			readable(letterNote(l)))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write dead letters: %w", err)
	}
	return nil
}

// readable is bytes of a broker for people.
func readable(s string) string { return printable(model.Readable(s)) }

// letterNote is what matters most about a letter beside its status.
func letterNote(l *model.DeadLetter) string {
	switch {
	case l.Unreplayable != "":
		return "cannot be replayed: " + l.Unreplayable
	case l.Status == model.LetterReplayed:
		return string(l.Became)
	case l.Original != nil:
		return "edited"
	}
	return ""
}

// jsonLetter is the documented form of a dead letter, without its content. Names are for reading: of bytes that are no
// UTF-8 each is U+FFFD; export has them as they are.
type jsonLetter struct {
	ID           string  `json:"id"`
	MessageID    *string `json:"message_id"` // null where it has none
	Status       string  `json:"status"`
	Service      string  `json:"service"`
	Queue        string  `json:"queue"`
	Exchange     string  `json:"exchange"`
	RoutingKey   string  `json:"routing_key"`
	Key          string  `json:"key"`
	Cause        string  `json:"cause"`
	Error        string  `json:"error"`
	Attempts     int     `json:"attempts"`
	Count        int64   `json:"count"`
	Replays      int     `json:"replays"`
	Parent       string  `json:"parent"`
	ReplayID     string  `json:"replay_id"`
	Became       string  `json:"became"`
	Unreplayable string  `json:"unreplayable"`
	Edited       bool    `json:"edited"`
	Size         int     `json:"size"`
	FirstAt      string  `json:"first_failed_at"`
	LastAt       string  `json:"last_failed_at"`
	CreatedAt    string  `json:"created_at"`
	UpdatedAt    string  `json:"updated_at"`
	ReplayedAt   string  `json:"replayed_at"`
	ErasedAt     string  `json:"erased_at"`
}

func letterJSON(l *model.DeadLetter) jsonLetter {
	j := jsonLetter{
		ID: l.ID, Status: string(l.Status), Service: l.Service, Queue: model.Readable(l.Queue),
		Exchange: model.Readable(l.Exchange), RoutingKey: model.Readable(l.RoutingKey), Key: l.Key, Cause: l.Cause,
		Error: l.Text, Attempts: l.Attempts, Count: l.Count, Replays: l.Replays, Parent: l.Parent, ReplayID: l.ReplayID,
		Became: string(l.Became), Unreplayable: l.Unreplayable, Edited: l.Original != nil, Size: l.Size,
		FirstAt: stampOf(l.FirstAt), LastAt: stampOf(l.LastAt), CreatedAt: stamp(l.CreatedAt),
		UpdatedAt: stamp(l.UpdatedAt), ReplayedAt: stampOf(l.ReplayedAt), ErasedAt: stampOf(l.ErasedAt),
	}
	if l.WireID != nil {
		id := model.Readable(string(l.WireID))
		j.MessageID = &id
	}
	return j
}

// stampOf is stamp, and "" for none.
func stampOf(ms int64) string {
	if ms == 0 {
		return ""
	}
	return stamp(ms)
}
