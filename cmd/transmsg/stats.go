package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) statsCommand() *cobra.Command {
	var store storeOptions
	var service string
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count stored messages by service, with the ages of the oldest",
		Args:  noArgs,
	}
	store.bind(cmd.Flags(), "required")
	cmd.Flags().StringVar(&service, "service", "", "only this service's")
	cmd.RunE = a.verb(func(ctx context.Context, _ []string) error {
		s, err := a.openStore(ctx, &store, nil)
		if err != nil {
			return err
		}
		defer s.Close()
		stats, err := s.Stats(ctx, service)
		if err != nil {
			return err
		}
		if a.jsonOut {
			for _, st := range stats {
				if err := printJSON(a.stdout, jsonStats{
					Service: st.Service, Ready: st.Ready, Due: st.Due, Dead: st.Dead, Exhausted: st.Exhausted,
					OldestDueSeconds: seconds(st.OldestDue), OldestReadySeconds: seconds(st.OldestReady),
				}); err != nil {
					return err
				}
			}
			return nil
		}
		if len(stats) == 0 {
			fmt.Fprintf(a.stdout, "nothing is stored: %s\n", totals(stats))
			return nil
		}
		w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "SERVICE\tREADY\tDUE NOW\tEXHAUSTED\tDEAD\tOLDEST DUE\tOLDEST READY")
		for _, st := range stats {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\t%s\n", printable(st.Service), st.Ready, st.Due, st.Exhausted,
				st.Dead, rough(st.OldestDue), rough(st.OldestReady))
		}
		if err := w.Flush(); err != nil {
			return fmt.Errorf("write stats: %w", err)
		}
		return nil
	})
	return cmd
}

// jsonStats is the documented line of stats --json.
type jsonStats struct {
	Service            string  `json:"service"`
	Ready              int64   `json:"ready"`
	Due                int64   `json:"due"`
	Dead               int64   `json:"dead"`
	Exhausted          int64   `json:"exhausted"`
	OldestDueSeconds   float64 `json:"oldest_due_seconds"`
	OldestReadySeconds float64 `json:"oldest_ready_seconds"`
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }
