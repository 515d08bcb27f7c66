package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/model"
)

func (a *app) groupsCommand() *cobra.Command {
	var store storeOptions
	var flags filterFlags
	var limit int
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "Count DEAD messages by service, exchange, routing key and cause",
		Long: "Count the stored messages that share service, exchange, routing key and last cause, most first, with\n" +
			"the times at which the first and the last of them got its status. What an alert tells as one line is\n" +
			"one line here.",
		Example: "  transmsg messages groups --service orders",
		Args:    noArgs,
	}
	store.bind(cmd.Flags(), "required")
	flags.bind(cmd.Flags(), "default DEAD")
	cmd.Flags().IntVar(&limit, "limit", defaultLimit, fmt.Sprintf("at most this many groups, 1 to %d", maxLimit))
	cmd.RunE = a.verb(func(ctx context.Context, _ []string) error {
		f, err := flags.filter()
		if err != nil {
			return err
		}
		if f.Limit = limit; limit < 1 || limit > maxLimit {
			return usagef("--limit %d must be 1 to %d", limit, maxLimit)
		}
		s, err := a.openStore(ctx, &store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		return a.groups(ctx, s, f)
	})
	return cmd
}

// grouper is what groups reads.
type grouper interface {
	Groups(context.Context, model.Filter) ([]model.Group, error)
	Stats(context.Context, string) ([]model.Stats, error)
	Now(context.Context) (int64, error)
}

func (a *app) groups(ctx context.Context, s grouper, f model.Filter) error {
	limit := f.Limit
	f.Limit = min(limit+1, maxLimit) // one more, to know whether there is one
	groups, err := s.Groups(ctx, f)
	if err != nil {
		return err
	}
	if len(groups) > limit || limit == maxLimit && len(groups) == limit {
		// Also with --json: on stderr, since stdout is for groups alone.
		defer fmt.Fprintf(a.stderr, "more groups match: --limit, or a filter\n")
		groups = groups[:limit]
	}
	if a.jsonOut {
		for i := range groups {
			if err := printJSON(a.stdout, groupJSON(&groups[i])); err != nil {
				return err
			}
		}
		return nil
	}
	if len(groups) == 0 {
		return a.noGroups(ctx, s, f)
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	return printGroups(a.stdout, groups, now)
}

// noGroups says in place of an empty table what there is.
func (a *app) noGroups(ctx context.Context, s grouper, f model.Filter) error {
	stats, err := s.Stats(ctx, f.Service)
	if err != nil {
		return err
	}
	nothing, where := "nothing is "+string(cmp.Or(f.Status, model.Dead)), ""
	if f.Service != "" {
		where = " of service " + printable(f.Service)
	}
	if (f != model.Filter{Service: f.Service, Status: f.Status, Limit: f.Limit}) {
		nothing = "no " + string(cmp.Or(f.Status, model.Dead)) + " message matches"
	}
	fmt.Fprintf(a.stdout, "%s; stored%s: %s\n", nothing, where, totals(stats))
	return nil
}

// totals are the counts of all services together.
func totals(stats []model.Stats) string {
	var ready, dead int64
	for _, st := range stats {
		ready, dead = ready+st.Ready, dead+st.Dead
	}
	return fmt.Sprintf("%d READY, %d DEAD", ready, dead)
}

// printGroups prints a table for people.
func printGroups(out io.Writer, groups []model.Group, now int64) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MESSAGES\tSERVICE\tEXCHANGE\tROUTING KEY\tCAUSE\tFIRST\tLAST\tSAMPLE\tITS KEY")
	for i := range groups {
		g := &groups[i]
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", g.Rows, printable(g.Service), printable(g.Exchange),
			printable(g.RoutingKey), printable(g.Code.Words()), ago(g.First, now), ago(g.Last, now),
			printable(g.SampleID), printable(g.SampleKey))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write groups: %w", err)
	}
	return nil
}

// jsonGroup is the documented line of groups --json.
type jsonGroup struct {
	Service    string `json:"service"`
	Exchange   string `json:"exchange"`
	RoutingKey string `json:"routing_key"`
	Code       string `json:"code"`
	Messages   int64  `json:"messages"`
	First      string `json:"first"`
	Last       string `json:"last"`
	SampleID   string `json:"sample_id"`
	SampleKey  string `json:"sample_key"`
}

func groupJSON(g *model.Group) jsonGroup {
	return jsonGroup{
		Service: g.Service, Exchange: g.Exchange, RoutingKey: g.RoutingKey, Code: string(g.Code), Messages: g.Rows,
		First: stamp(g.First), Last: stamp(g.Last), SampleID: g.SampleID, SampleKey: g.SampleKey,
	}
}
