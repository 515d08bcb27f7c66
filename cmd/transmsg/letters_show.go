package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

func (a *app) letterShowCommand() *cobra.Command {
	var store storeOptions
	var body, original bool
	var who actorFlags
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one dead letter: row, properties, headers, lineage and history",
		Long: "Show one dead letter: its row, what can be read of its properties and headers, what became of its\n" +
			"replay, the letters that came back after one, and its history. Of the body only size and SHA-256\n" +
			"are shown; --body prints it alone, byte for byte, and leaves a line in the history that says who\n" +
			"read it. Of an edited letter that is the corrected one, and --original the one that the broker\n" +
			"delivered.",
		Args: func(_ *cobra.Command, args []string) error { return letterID(args) },
	}
	store.bind(cmd.Flags(), "required")
	who.bind(cmd.Flags())
	cmd.Flags().BoolVar(&body, "body", false, "print the body alone, byte for byte")
	cmd.Flags().BoolVar(&original, "original", false, "with --body: of an edited letter the body before its first edit")
	cmd.RunE = a.verb(func(ctx context.Context, args []string) error {
		switch {
		case body && a.jsonOut:
			return usagef("--body and --json: give one of them; --body prints raw bytes")
		case original && !body:
			return usagef("--original: give --body too")
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
		l, events, children, err := storedLetter(ctx, s, args[0])
		switch {
		case err != nil:
			return err
		case body:
			return a.showLetterBody(ctx, s, &l, actor, original)
		}
		return a.showLetter(&l, events, children)
	})
	return cmd
}

// letterID is the argument of a verb on one dead letter.
func letterID(args []string) error {
	if len(args) != 1 {
		return usagef("needs one id of a dead letter, got %d arguments", len(args))
	}
	return nil
}

// storedLetter reads one dead letter.
func storedLetter(
	ctx context.Context, s *gormstore.Store, id string,
) (l model.DeadLetter, events []model.Event, children []model.DeadLetter, err error) {
	l, events, children, err = s.Letter(ctx, id)
	if errors.Is(err, model.ErrNotFound) {
		err = fmt.Errorf("no dead letter %s is stored, and nothing of its history. Its id is the rejection's, not the "+
			"message's\nNext: transmsg dead-letters list --message-id %s", printable(id), shellWord(id))
		if len(events) > 0 {
			last := events[len(events)-1]
			err = fmt.Errorf("no dead letter %s is stored any more: its last line is %s at %s by %s%s", printable(id),
				last.Kind, stamp(last.At), printable(last.Actor), reason(last.Text))
		}
	}
	return l, events, children, err
}

// showLetterBody prints the body alone. The history says so first: whoever has read it is in it.
func (a *app) showLetterBody(
	ctx context.Context, s *gormstore.Store, l *model.DeadLetter, actor string, original bool,
) error {
	body := l.Payload
	if original && l.Original != nil {
		body = l.Original.Payload
	}
	if l.ErasedAt > 0 {
		return fmt.Errorf("the content of dead letter %s was erased at %s", l.ID, stamp(l.ErasedAt))
	}
	if err := s.AddEvent(ctx, readLetter(l, actor)); err != nil {
		return fmt.Errorf("the body is not shown, because its reader cannot be recorded: %w", err)
	}
	if _, err := a.stdout.Write(body); err != nil {
		return fmt.Errorf("write body: %w", err)
	}
	return nil
}

func readLetter(l *model.DeadLetter, actor string) model.Event {
	return model.Event{RowID: l.ID, Kind: model.EventRead, Code: l.Code(), Attempts: l.Attempts, Actor: actor}
}

// jsonLetterShow is the documented form of show --json.
type jsonLetterShow struct {
	jsonLetter
	Version    int          `json:"version"`
	Epoch      int          `json:"epoch"`
	BodySize   int          `json:"body_size"`
	BodySHA256 string       `json:"body_sha256"`
	Original   *jsonBody    `json:"original"` // null where it was not edited
	Properties []jsonField  `json:"properties"`
	Problems   []string     `json:"problems"` // what cannot be read of the properties
	Children   []jsonLetter `json:"children"`
	Events     []jsonEvent  `json:"events"`
}

type jsonBody struct {
	Size   int    `json:"body_size"`
	SHA256 string `json:"body_sha256"`
}

type jsonField struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func letterShowJSON(l *model.DeadLetter, events []model.Event, children []model.DeadLetter) jsonLetterShow {
	v := l.Properties.View()
	out := jsonLetterShow{
		jsonLetter: letterJSON(l), Version: l.Version, Epoch: l.Epoch, BodySize: len(l.Payload),
		BodySHA256: fmt.Sprintf("%x", sha256.Sum256(l.Payload)), Properties: []jsonField{},
		Problems: append([]string{}, v.Problems...), Children: []jsonLetter{}, Events: eventsJSON(events),
	}
	if l.Original != nil {
		sum := sha256.Sum256(l.Original.Payload)
		out.Original = &jsonBody{len(l.Original.Payload), fmt.Sprintf("%x", sum)}
	}
	lines := propertyLines(&model.Message{Properties: v.Properties, Headers: v.Headers})
	if v.Properties.UserID != "" {
		lines = append(lines, [2]string{"user id", fmt.Sprintf("%q", v.Properties.UserID)})
	}
	for _, f := range lines {
		out.Properties = append(out.Properties, jsonField{model.Readable(f[0]), model.Readable(f[1])})
	}
	for i := range children {
		out.Children = append(out.Children, letterJSON(&children[i]))
	}
	return out
}

func (a *app) showLetter(l *model.DeadLetter, events []model.Event, children []model.DeadLetter) error {
	s := letterShowJSON(l, events, children)
	if a.jsonOut {
		return printJSON(a.stdout, s)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, printable(value))
		}
	}
	line("id", s.ID)
	line("status", s.Status)
	line("cannot be replayed", s.Unreplayable)
	line("queue", fmt.Sprintf("%q", l.Queue))
	line("exchange", fmt.Sprintf("%q", l.Exchange))
	line("routing key", fmt.Sprintf("%q", l.RoutingKey))
	if l.WireID != nil {
		line("message id", fmt.Sprintf("%q", l.WireID))
	}
	line("business key", fmt.Sprintf("%q", s.Key))
	line("service", s.Service)
	line("cause", s.Cause)
	line("error", s.Error)
	line("attempts", fmt.Sprintf("%d, dead-lettered %d times by the broker", s.Attempts, s.Count))
	line("first failed", s.FirstAt)
	line("last failed", s.LastAt)
	line("stored", s.CreatedAt)
	line("updated", s.UpdatedAt)
	line("replays before", fmt.Sprint(s.Replays))
	line("came back after", s.Parent)
	if s.ReplayedAt != "" {
		line("last replay", fmt.Sprintf("%s as message %s", s.ReplayedAt, s.ReplayID))
	}
	line("it became", s.Became)
	line("erased", s.ErasedAt)
	line("version, epoch", fmt.Sprintf("%d, %d", s.Version, s.Epoch))
	line("body", fmt.Sprintf("%d bytes, sha256 %s", s.BodySize, s.BodySHA256))
	if s.Original != nil {
		line("original body", fmt.Sprintf("%d bytes, sha256 %s", s.Original.Size, s.Original.SHA256))
	}
	for _, f := range s.Properties {
		line(f.Name, f.Value)
	}
	for _, p := range s.Problems {
		line("not read", p)
	}
	for i := range children {
		line("came back as", fmt.Sprintf("%s, %s", children[i].ID, children[i].Status))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write dead letter: %w", err)
	}
	fmt.Fprintln(a.stdout)
	return printHistory(a.stdout, s.Events)
}
