package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

func (a *app) showCommand() *cobra.Command {
	var store storeOptions
	var api managementOptions
	var body bool
	var who actorFlags
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one stored message: row, properties, headers and history",
		Long: "Show one stored message: its row, decoded properties and headers, and the history of failed sends.\n" +
			"Of the body only size and SHA-256 are shown; --body prints the body alone, byte for byte, and leaves\n" +
			"a line in the history that says who read it.",
		Args: func(_ *cobra.Command, args []string) error { return messageID(args) },
	}
	store.bind(cmd.Flags(), "required")
	api.bind(cmd.Flags())
	who.bind(cmd.Flags())
	cmd.Flags().BoolVar(&body, "body", false, "print the body alone, byte for byte")
	cmd.RunE = a.verb(func(ctx context.Context, args []string) error {
		if body && a.jsonOut {
			return usagef("--body and --json: give one of them; --body prints raw bytes")
		}
		actor, err := who.name()
		if err != nil {
			return err
		}
		routes, closed, err := api.routes(a)
		if err != nil {
			return err
		}
		defer closed()
		s, err := a.openStore(ctx, &store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		row, events, err := stored(ctx, s, args[0])
		if err != nil {
			return err
		}
		if body {
			return a.showBody(ctx, s, &row, actor)
		}
		var reach *jsonReach
		if row.Exchange != "" {
			where := (&reaches{routes}).route(ctx, row.Exchange, row.RoutingKey, row.ID, messageHeaders(s))
			reach = &where
		}
		return a.show(&row, events, reach)
	})
	return cmd
}

// stored reads one message.
func stored(ctx context.Context, s *gormstore.Store, id string) (model.TransMessage, []model.Event, error) {
	row, events, err := s.Show(ctx, id)
	if errors.Is(err, model.ErrNotFound) {
		text := fate(id, events)
		if len(events) > 0 {
			text += "\nNext: what is left of it: transmsg messages history " + id
		}
		err = errors.New(text)
	}
	return row, events, err
}

// showBody prints the body alone. The history says so first: whoever has read it is in it.
func (a *app) showBody(ctx context.Context, s *gormstore.Store, row *model.TransMessage, actor string) error {
	if err := s.AddEvent(ctx, readEvent(row, actor)); err != nil {
		return fmt.Errorf("the body is not shown, because its reader cannot be recorded: %w", err)
	}
	if _, err := a.stdout.Write(row.Payload); err != nil {
		return fmt.Errorf("write body: %w", err)
	}
	return nil
}

func readEvent(row *model.TransMessage, actor string) model.Event {
	return model.Event{
		RowID: row.ID, Kind: model.EventRead, Code: row.LastCode, Attempts: row.Attempts, Actor: actor,
	}
}

// jsonShow is the documented form of show --json.
type jsonShow struct {
	jsonRow
	Version         int             `json:"version"`
	Epoch           int             `json:"epoch"`
	BodySize        int             `json:"body_size"`
	BodySHA256      string          `json:"body_sha256"`
	Properties      json.RawMessage `json:"properties"` // as stored; null where unreadable
	PropertiesError string          `json:"properties_error"`
	Events          []jsonEvent     `json:"events"`
	Reach           *jsonReach      `json:"reach"` // null for the default exchange
}

type jsonEvent struct {
	At       string `json:"at"`
	Kind     string `json:"kind"`
	Code     string `json:"code"`
	Text     string `json:"text"`
	Attempts int    `json:"attempts"`
	Instance string `json:"instance"`
	Actor    string `json:"actor"`
}

func (a *app) show(row *model.TransMessage, events []model.Event, reach *jsonReach) error {
	sum := sha256.Sum256(row.Payload)
	s := jsonShow{
		jsonRow: rowJSON(row), Version: row.Version, Epoch: row.Epoch,
		BodySize: len(row.Payload), BodySHA256: hex.EncodeToString(sum[:]),
		Properties: json.RawMessage(row.Properties), Events: eventsJSON(events), Reach: reach,
	}
	m, err := row.Message()
	if err != nil { // a row that cannot be sent must still be shown
		s.PropertiesError = err.Error()
		if !json.Valid(row.Properties) {
			s.Properties = json.RawMessage("null")
		}
	}
	if a.jsonOut {
		return printJSON(a.stdout, s)
	}
	return a.showText(&s, &m)
}

// showText prints a message for people. Strings from the row are quoted where they could
// hold anything.
func (a *app) showText(s *jsonShow, m *model.Message) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, f := range [...]struct{ name, value string }{
		{"id", s.ID},
		{"status", s.Status},
		{"service", s.Service},
		{"exchange", fmt.Sprintf("%q", s.Exchange)},
		{"routing key", fmt.Sprintf("%q", s.RoutingKey)},
		{"business key", fmt.Sprintf("%q", s.Key)},
		{"attempts", fmt.Sprintf("%d, failures of any kind %d", s.Attempts, s.Failures)},
		{"last cause", printable(cause(s.LastCode, s.LastError))},
		{"next attempt", printable(s.NextAttemptAt)},
		{"created", s.CreatedAt},
		{"updated", s.UpdatedAt},
		{"claimed by", printable(s.ClaimedBy)},
		{"version, epoch", fmt.Sprintf("%d, %d", s.Version, s.Epoch)},
		{"body", fmt.Sprintf("%d bytes, sha256 %s", s.BodySize, s.BodySHA256)},
	} {
		fmt.Fprintf(w, "%s\t%s\n", f.name, f.value)
	}
	if s.PropertiesError != "" {
		fmt.Fprintf(w, "properties\t%s\n", printable(s.PropertiesError))
	} else {
		for _, f := range propertyLines(m) {
			fmt.Fprintf(w, "%s\t%s\n", f[0], f[1])
		}
	}
	if s.Reach != nil {
		fmt.Fprintf(w, "reaches\t%s\n", printable(s.Reach.Text))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write message: %w", err)
	}
	fmt.Fprintln(a.stdout)
	return printHistory(a.stdout, s.Events)
}
