package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

func (a *app) lettersGroupsCommand() *cobra.Command {
	var store storeOptions
	var flags letterFilterFlags
	var limit int
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "Count dead letters by service, status, queue and cause",
		Long: "Count the dead letters that share service, status, queue and cause, most first, with the times at\n" +
			"which the first and the last of them were stored. What an alert tells as one line is one line\n" +
			"here. With --status REPLAYED it also counts what became of them, as far as the tables tell.",
		Example: "  transmsg dead-letters groups\n" +
			"  transmsg dead-letters groups --queue payments --status REPLAYED",
		Args: noArgs,
	}
	store.bind(cmd.Flags(), "required")
	flags.bind(cmd.Flags(), "default OPEN and PARKED")
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
		return a.lettersGroups(ctx, s, f)
	})
	return cmd
}

func (a *app) lettersGroups(ctx context.Context, s *gormstore.Store, f model.LetterFilter) error {
	limit := f.Limit
	f.Limit = min(limit+1, maxLimit) // one more, to know whether there is one
	groups, err := s.LetterGroups(ctx, f)
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
			if err := printJSON(a.stdout, letterGroupJSON(&groups[i])); err != nil {
				return err
			}
		}
		return nil
	}
	if len(groups) == 0 {
		fmt.Fprintln(a.stdout, "no dead letter of this status matches; all of them: transmsg dead-letters list")
		return nil
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	return printLetterGroups(a.stdout, groups, now)
}

// printLetterGroups prints a table for people, and below it what became of replays.
func printLetterGroups(out io.Writer, groups []model.LetterGroup, now int64) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DEAD LETTERS\tSTATUS\tSERVICE\tQUEUE\tCAUSE\tFIRST\tLAST\tSAMPLE\tITS KEY")
	var replayed int64
	total := map[model.Became]int64{}
	for i := range groups {
		g := &groups[i]
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", g.Rows, g.Status, printable(g.Service),
			readable(g.Queue),
			printable(g.Cause), ago(g.First, now), ago(g.Last, now), printable(g.SampleID), printable(g.SampleKey))
		for became, n := range g.Became {
			total[became] += n
		}
		if g.Became != nil {
			replayed += g.Rows
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write groups: %w", err)
	}
	if replayed > 0 {
		fmt.Fprintf(out, "\nof %d replayed: %s\n", replayed, becameText(total))
	}
	return nil
}

// becameText is such as "3 waiting, 5 handled".
func becameText(counts map[model.Became]int64) string {
	var parts []string
	for _, became := range model.AllBecame() {
		if n := counts[became]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, became))
		}
	}
	return strings.Join(parts, ", ")
}

// jsonLetterGroup is the documented line of groups --json.
type jsonLetterGroup struct {
	Service      string                 `json:"service"`
	Status       string                 `json:"status"`
	Queue        string                 `json:"queue"`
	Cause        string                 `json:"cause"`
	DeadLetters  int64                  `json:"dead_letters"`
	Unreplayable int64                  `json:"unreplayable"`
	First        string                 `json:"first"`
	Last         string                 `json:"last"`
	SampleID     string                 `json:"sample_id"`
	SampleKey    string                 `json:"sample_key"`
	Became       map[model.Became]int64 `json:"became"` // null but of REPLAYED ones
}

func letterGroupJSON(g *model.LetterGroup) jsonLetterGroup {
	return jsonLetterGroup{
		Service: g.Service, Status: string(g.Status), Queue: model.Readable(g.Queue), Cause: g.Cause,
		DeadLetters:  g.Rows,
		Unreplayable: g.Unreplayable, First: stamp(g.First), Last: stamp(g.Last), SampleID: g.SampleID,
		SampleKey: g.SampleKey, Became: g.Became,
	}
}
