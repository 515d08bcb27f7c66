package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/model"
)

// The attempts that are shown in full, and the most that are looked at.
const (
	policyShown = 20
	policyMost  = 1_000_000
)

func (a *app) policyCommand() *cobra.Command {
	var policy policyOptions
	var oldest time.Duration
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Print when a message that fails each time is sent, alerted and DEAD",
		Long: "Prints the timetable of the settings in force for a message that the broker answers with a failure\n" +
			"each time: attempt by attempt the time since the first, the delay after it, and what happens then.\n" +
			"Times are those in the middle of the jitter. Nothing is contacted.",
		Example: "  transmsg policy\n" +
			"  transmsg policy --max-attempts 5 --min-dead-age 30m",
		Args: noArgs,
	}
	policy.bind(cmd.Flags())
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	bindOldestReady(set, &oldest)
	cmd.Flags().AddFlagSet(settings(set))
	cmd.RunE = a.verb(func(context.Context, []string) error {
		p, err := policy.policy()
		if err != nil {
			return err
		}
		if oldest != 0 && oldest < time.Second {
			return usagef("--oldest-ready %v must be at least 1s, or 0 for none", oldest)
		}
		return a.printPolicy(p, oldest)
	})
	return cmd
}

// bindOldestReady is the setting that the daemon and its timetable share.
func bindOldestReady(set *pflag.FlagSet, to *time.Duration) {
	set.DurationVar(to, "oldest-ready", compensator.DefaultOldestReady,
		"age of the oldest READY message that raises an alert, at least 1s; 0 is none")
}

// jsonStep is the documented line of policy --json.
type jsonStep struct {
	Attempt      int      `json:"attempt"`
	AfterSeconds float64  `json:"after_seconds"`
	DelaySeconds float64  `json:"delay_seconds"`
	Then         []string `json:"then"`
}

// printPolicy prints the steps at which something happens, and the first ones.
func (a *app) printPolicy(p model.Policy, oldest time.Duration) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	if !a.jsonOut {
		fmt.Fprintln(w, "ATTEMPT\tAFTER\tNEXT IN\tTHEN")
	}
	var before model.Step
	skipped := false
	for s := range p.Timetable() {
		then := policyEvents(before, s, oldest)
		before = s
		if s.Attempt > policyMost {
			fmt.Fprintln(a.stderr, "the rest is left out")
			break
		}
		if s.Attempt > policyShown && len(then) == 0 {
			skipped = true
			continue
		}
		if a.jsonOut {
			if err := printJSON(a.stdout, jsonStep{s.Attempt, seconds(s.At), seconds(s.Delay), then}); err != nil {
				return err
			}
			continue
		}
		if skipped {
			fmt.Fprintln(w, "...\t\t\t")
			skipped = false
		}
		next := "-"
		if !s.Dead {
			next = rough(s.Delay)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", s.Attempt, rough(s.At), next, strings.Join(then, "; "))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the timetable: %w", err)
	}
	return nil
}

// policyEvents says what happens at a step, or before the next one.
func policyEvents(before, s model.Step, oldest time.Duration) []string {
	then := []string{}
	switch {
	case s.Dead:
		return append(then, "DEAD, alert dead")
	case s.Exhausted && !before.Exhausted:
		then = append(then, "attempts used up, alert exhausted")
	}
	if oldest > 0 && s.At <= oldest && s.At+s.Delay > oldest {
		then = append(then, fmt.Sprintf("alert oldest-ready at %s", rough(oldest)))
	}
	return then
}
