package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/model"
)

func (a *app) historyCommand() *cobra.Command {
	var store storeOptions
	cmd := &cobra.Command{
		Use:   "history ID",
		Short: "Show what happened to one message, also after its row is gone",
		Long: "Show the history of one message, oldest line first: its failed sends and what operators did. The\n" +
			"history outlives the row, by default for 30 days (--event-retention of the compensator). A delivery\n" +
			"deletes the row and writes no line: the last lines on stderr say what follows from that.",
		Example: "  transmsg messages history 01890000-0000-7000-8000-000000000001",
		Args:    func(_ *cobra.Command, args []string) error { return messageID(args) },
	}
	store.bind(cmd.Flags(), "required")
	cmd.RunE = a.verb(func(ctx context.Context, args []string) error {
		s, err := a.openStore(ctx, &store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		row, events, err := s.Show(ctx, args[0])
		gone := errors.Is(err, model.ErrNotFound)
		switch {
		case gone && len(events) == 0:
			return errors.New(fate(args[0], nil))
		case err != nil && !gone:
			return err
		}
		if err := a.history(events); err != nil {
			return err
		}
		if gone {
			fmt.Fprintln(a.stderr, fate(args[0], events))
		} else {
			fmt.Fprintf(a.stderr, "the message is stored, %s: transmsg messages show %s\n", row.Status, row.ID)
		}
		return nil
	})
	return cmd
}

// history prints the events, for people or one line of JSON each.
func (a *app) history(events []model.Event) error {
	if !a.jsonOut {
		return printHistory(a.stdout, eventsJSON(events))
	}
	for _, e := range eventsJSON(events) {
		if err := printJSON(a.stdout, e); err != nil {
			return err
		}
	}
	return nil
}

func eventsJSON(events []model.Event) []jsonEvent {
	out := make([]jsonEvent, len(events))
	for i, e := range events {
		out[i] = jsonEvent{
			At: stamp(e.At), Kind: e.Kind, Code: string(e.Code), Text: e.Text, Attempts: e.Attempts,
			Instance: e.Instance, Actor: e.Actor,
		}
	}
	return out
}

// printHistory prints a table for people.
func printHistory(out io.Writer, events []jsonEvent) error {
	fmt.Fprintf(out, "history: %d events\n", len(events))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, e := range events {
		who := e.Instance
		if e.Actor != "" {
			who = e.Actor
		}
		fmt.Fprintf(w, "%s\t%s\t%s\tattempts %d\t%s\t%s\n",
			e.At, e.Kind, printable(model.CauseCode(e.Code).Words()), e.Attempts, printable(who), printable(e.Text))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

// fate says what is known of a message whose row is not there, from the lines that it left.
func fate(id string, events []model.Event) string {
	// Who read the body, and an ack of an older message, changed nothing about the row.
	events = slices.DeleteFunc(slices.Clone(events), func(e model.Event) bool {
		return e.Kind == model.EventRead || e.Kind == model.EventLateAck
	})
	if len(events) == 0 {
		return fmt.Sprintf("no message %s is stored, and no line of its history%s.\n"+
			"A message that the broker takes at its first send is deleted and leaves no line, and lines are deleted "+
			"after the compensator's --event-retention. Or it was never stored, or in another database, or with "+
			"another --table-prefix.\n"+
			"Next: look for the id in the consumer's log (it is the message-id property) and in the publisher's",
			id, made(id))
	}
	last := events[len(events)-1]
	said := fmt.Sprintf("no message %s is stored any more: ", id)
	switch last.Kind {
	case model.EventDiscard:
		return said + fmt.Sprintf("discarded at %s by %s%s", stamp(last.At), printable(last.Actor), reason(last.Text))
	case model.EventPurge:
		return said + fmt.Sprintf("it was DEAD for longer than the compensator's --dead-retention, and was deleted "+
			"at %s", stamp(last.At))
	case model.EventDead:
		return said + fmt.Sprintf("it went DEAD at %s (%s), and nothing says who deleted the row since: SQL, or a "+
			"confirm that came late", stamp(last.At), cause(string(last.Code), last.Text))
	}
	return said + fmt.Sprintf("its last line is %s at %s, and nobody discarded it. So the broker took it after that "+
		"time, which deletes the row and writes no line, unless somebody deleted the row by SQL",
		strings.TrimSpace(last.Kind+" "+last.Code.Words()), stamp(last.At))
}

func reason(text string) string {
	if text == "" {
		return ""
	}
	return ": " + printable(text)
}

// made is when an id of the library's own kind was made, by the publisher's clock.
func made(id string) string {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 {
		return ""
	}
	sec, nsec := u.Time().UnixTime()
	return ". Its id was made at " + stamp(time.Unix(sec, nsec).UnixMilli())
}
