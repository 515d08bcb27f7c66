package main

import (
	"bufio"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// jsonExport is the documented line of export and import: the whole row. Times are Unix
// milliseconds of the database's clock.
type jsonExport struct {
	ID            string `json:"id"`
	Service       string `json:"service"`
	Status        string `json:"status"`
	Exchange      string `json:"exchange"`
	RoutingKey    string `json:"routing_key"`
	Key           string `json:"key"`
	Body          []byte `json:"body_base64"`
	Properties    []byte `json:"properties_base64"`
	Attempts      int    `json:"attempts"`
	Failures      int    `json:"failures"`
	Claims        int    `json:"claims"`
	Version       int    `json:"version"`
	Epoch         int    `json:"epoch"`
	LastCode      string `json:"last_code"`
	LastError     string `json:"last_error"`
	ClaimedBy     string `json:"claimed_by"`
	NextAttemptAt int64  `json:"next_attempt_at_ms"`
	CreatedAt     int64  `json:"created_at_ms"`
	UpdatedAt     int64  `json:"updated_at_ms"`
	ReplayedAt    int64  `json:"replayed_at_ms"`
	FirstFailedAt int64  `json:"first_failed_at_ms"`
	LoneClaims    int    `json:"lone_claims"`
	LoneSince     int64  `json:"lone_since_ms"`
	Closes        int    `json:"closes"`
	ClosesSince   int64  `json:"closes_since_ms"`
	NotBefore     int64  `json:"not_before_ms"`
}

func exportJSON(t *model.TransMessage) jsonExport {
	return jsonExport{
		ID: t.ID, Service: t.Service, Status: string(t.Status), Exchange: t.Exchange, RoutingKey: t.RoutingKey,
		Key: t.MessageKey, Body: notNil(t.Payload), Properties: notNil(t.Properties), Attempts: t.Attempts,
		Failures: t.Failures, Claims: t.Claims, Version: t.Version, Epoch: t.Epoch, LastCode: string(t.LastCode),
		LastError: t.LastError, ClaimedBy: t.ClaimedBy, NextAttemptAt: t.NextAttemptAt, CreatedAt: t.CreatedAt,
		UpdatedAt: t.UpdatedAt, ReplayedAt: t.ReplayedAt, FirstFailedAt: t.FirstFailedAt, LoneClaims: t.LoneClaims,
		LoneSince: t.LoneSince, Closes: t.Closes, ClosesSince: t.ClosesSince, NotBefore: t.NotBefore,
	}
}

// notNil keeps an empty body from becoming null.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func (j *jsonExport) row() model.TransMessage {
	return model.TransMessage{
		ID: j.ID, Service: j.Service, Status: model.Status(j.Status), Exchange: j.Exchange,
		RoutingKey: j.RoutingKey, MessageKey: j.Key, Payload: j.Body, Properties: j.Properties,
		Attempts: j.Attempts, Failures: j.Failures, Claims: j.Claims, Version: j.Version, Epoch: j.Epoch,
		LastCode: model.CauseCode(j.LastCode), LastError: j.LastError, ClaimedBy: j.ClaimedBy,
		NextAttemptAt: j.NextAttemptAt, CreatedAt: j.CreatedAt, UpdatedAt: j.UpdatedAt, ReplayedAt: j.ReplayedAt,
		FirstFailedAt: j.FirstFailedAt, LoneClaims: j.LoneClaims, LoneSince: j.LoneSince,
		Closes: j.Closes, ClosesSince: j.ClosesSince, NotBefore: j.NotBefore,
		Size: len(j.Body) + len(j.Properties),
	}
}

func (a *app) exportCommand() *cobra.Command {
	var store storeOptions
	var which selectionFlags
	var who actorFlags
	cmd := &cobra.Command{
		Use:   "export [ID...]",
		Short: "Print stored messages whole, as JSON lines, for `messages import`",
		Long: "Prints each message as one line of JSON with everything the store keeps of it, body and properties\n" +
			"byte for byte in base64; `messages import` stores them again. Nothing is changed, but each message's\n" +
			"history says who read it. With ids and a filter, both must match.",
		Example: "  transmsg messages export --service orders --status DEAD > dead.jsonl",
	}
	store.bind(cmd.Flags(), "required")
	which.bind(cmd.Flags(), "default both")
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
		return a.export(ctx, s, sel, actor)
	})
	return cmd
}

func (a *app) export(ctx context.Context, s *gormstore.Store, sel model.Selection, actor string) error {
	selections := []model.Selection{sel}
	if len(sel.IDs) == 0 && sel.Filter == (model.Filter{}) { // --all: a selection must name something
		other := sel
		selections[0].Filter.Status, other.Filter.Status = model.Ready, model.Dead
		selections = append(selections, other)
	}
	for _, sel := range selections {
		// A part that looks like the whole would be a trap, so it is refused before.
		p, err := s.Select(ctx, sel)
		if err != nil {
			return err
		}
		if p.More {
			return fmt.Errorf("more than %d messages match: raise --max, or export in parts by --service, --code "+
				"or --routing-key", sel.Max)
		}
	}
	out := bufio.NewWriterSize(a.stdout, 64<<10)
	n := 0
	p := newProgress(a, message, "exported")
	defer p.close()
	for _, sel := range selections {
		if err := s.Export(ctx, sel, func(t model.TransMessage) error {
			if err := s.AddEvent(ctx, readEvent(&t, actor)); err != nil {
				return fmt.Errorf("record the reader of %s: %w", t.ID, err)
			}
			n++
			p.set(n)
			return printExport(out, exportJSON(&t))
		}); err != nil {
			return fmt.Errorf("after %s: %w", count(n), err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write messages: %w", err)
	}
	fmt.Fprintf(a.stderr, "%s exported as %s\n", count(n), actor)
	return nil
}
