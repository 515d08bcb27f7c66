package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/model"
)

const (
	defaultLimit = 100
	maxLimit     = 10_000
)

func (a *app) listCommand() *cobra.Command {
	var store storeOptions
	var flags filterFlags
	var limit int
	var after string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List stored messages, oldest id first",
		Example: "  transmsg messages list --status DEAD\n" +
			"  transmsg messages list --key order-4711 --json",
		Args: noArgs,
	}
	fs := cmd.Flags()
	store.bind(fs, "required")
	flags.bind(fs, "default both")
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
		return a.list(ctx, s, f)
	})
	return cmd
}

// bindPage adds the flags of a listing's pages.
func bindPage(fs *pflag.FlagSet, limit *int, after *string) {
	fs.IntVar(limit, "limit", defaultLimit, fmt.Sprintf("at most this many, 1 to %d", maxLimit))
	fs.StringVar(after, "after", "", "only with ids above this one: the last `id` of the page before")
}

// lister is what list reads.
type lister interface {
	List(context.Context, model.Filter) ([]model.TransMessage, error)
	Now(context.Context) (int64, error)
}

// list prints one page. The demo shows its rows through the same code.
func (a *app) list(ctx context.Context, s lister, f model.Filter) error {
	rows, err := s.List(ctx, f)
	if err != nil {
		return err
	}
	more, err := moreAfter(ctx, s, f, rows)
	if err != nil {
		return err
	}
	if more { // also with --json: on stderr, since stdout is for rows alone
		defer fmt.Fprintf(a.stderr, "more messages match: --after %s\n", rows[len(rows)-1].ID)
	}
	if a.jsonOut {
		for i := range rows {
			if err := printJSON(a.stdout, rowJSON(&rows[i])); err != nil {
				return err
			}
		}
		return nil
	}
	if len(rows) == 0 {
		fmt.Fprintln(a.stdout, "no message matches; counts: transmsg stats")
		return nil
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	return printRows(a.stdout, rows, now)
}

// moreAfter tells whether rows match behind a full page.
func moreAfter(ctx context.Context, s lister, f model.Filter, page []model.TransMessage) (bool, error) {
	if f.Limit <= 0 || len(page) < f.Limit {
		return false, nil
	}
	f.Limit, f.After = 1, page[len(page)-1].ID
	next, err := s.List(ctx, f)
	return len(next) > 0, err
}

// printRows prints a table for people; the ages are by the database's clock.
func printRows(out io.Writer, rows []model.TransMessage, now int64) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATUS\tSERVICE\tEXCHANGE\tROUTING KEY\tKEY\tATTEMPTS\tCAUSE\tAGE\tDUE")
	for i := range rows {
		r := &rows[i]
		due := "-"
		if r.Status == model.Ready {
			due = until(r.NextAttemptAt, now)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", r.ID, r.Status, printable(r.Service),
			printable(r.Exchange), printable(r.RoutingKey), printable(r.MessageKey), r.Attempts,
			printable(r.LastCode.Words()), age(r.EligibleAt(), now), due)
	}
	return w.Flush()
}

// printable keeps a stored string from moving the cursor or the columns.
func printable(s string) string {
	if s == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return '\uFFFD'
		}
		return r
	}, s)
}

func age(at, now int64) string { return rough(model.MillisToDuration(now - at)) }

func until(at, now int64) string {
	if at <= now {
		return "now"
	}
	return "in " + rough(model.MillisToDuration(at-now))
}

// rough is a duration in the two digits that matter.
func rough(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return d.Truncate(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Truncate(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// jsonRow is the documented form of a stored row, without its body.
type jsonRow struct {
	ID            string `json:"id"`
	Service       string `json:"service"`
	Status        string `json:"status"`
	Exchange      string `json:"exchange"`
	RoutingKey    string `json:"routing_key"`
	Key           string `json:"key"`
	Attempts      int    `json:"attempts"`
	Failures      int    `json:"failures"`
	LastCode      string `json:"last_code"`
	LastError     string `json:"last_error"`
	ClaimedBy     string `json:"claimed_by"`
	Size          int    `json:"size"`
	NextAttemptAt string `json:"next_attempt_at"`
	CreatedAt     string `json:"created_at"`
	UpdatedAt     string `json:"updated_at"`
}

func rowJSON(r *model.TransMessage) jsonRow {
	next := "" // a DEAD row has no next attempt: its column is when its alert is looked at
	if r.Status == model.Ready {
		next = stamp(r.NextAttemptAt)
	}
	return jsonRow{
		ID: r.ID, Service: r.Service, Status: string(r.Status), Exchange: r.Exchange, RoutingKey: r.RoutingKey,
		Key: r.MessageKey, Attempts: r.Attempts, Failures: r.Failures, LastCode: string(r.LastCode),
		LastError: r.LastError, ClaimedBy: r.ClaimedBy, Size: r.Size,
		NextAttemptAt: next, CreatedAt: stamp(r.CreatedAt), UpdatedAt: stamp(r.UpdatedAt),
	}
}

// stamp is a database time as RFC 3339 in UTC with milliseconds.
func stamp(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// printJSON prints v as one line.
func printJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}
