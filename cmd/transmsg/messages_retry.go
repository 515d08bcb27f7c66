package main

import (
	"context"
	"math"

	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

func (a *app) retryCommand() *cobra.Command {
	var o messageActOptions
	var rate float64
	var early bool
	cmd := &cobra.Command{
		Use:   "retry [ID...]",
		Short: "Send READY messages now that wait for their next attempt",
		Long: "Makes READY messages due now that wait after a failed send, for the time when its cause is mended.\n" +
			"Attempts and history are kept. Messages that are being sent, or are due already, stay as they are, and\n" +
			"so do those that were never tried and wait for their --not-before: --early takes them too. Due times\n" +
			"are spread as by replay, which is the verb for DEAD messages. Shows what it would do unless --yes is\n" +
			"given. With ids and a filter, both must match.",
		Example: "  transmsg messages retry --service orders --code 312 --reason 'queue was missing' --yes\n" +
			"  transmsg messages retry 01890000-0000-7000-8000-000000000001 --yes",
	}
	o.bind(cmd, "only READY can be retried")
	o.api.bind(cmd.Flags())
	cmd.Flags().Float64Var(&rate, "rate", defaultReplayRate, "most messages due per second; 0 makes all due now")
	cmd.Flags().BoolVar(&early, "early", false, "also messages that were never tried: their --not-before has not come")
	cmd.RunE = a.verb(func(ctx context.Context, ids []string) error {
		if !(rate >= 0) || math.IsInf(rate, 0) {
			return usagef("--rate %v must be 0 or more", rate)
		}
		sel, err := o.which.selection(ids)
		if err != nil {
			return err
		}
		if sel.Filter.Status == model.Dead {
			return usagef("--status DEAD: only READY messages are retried; for DEAD ones: transmsg messages replay")
		}
		sel.Filter.Status, sel.Filter.Waiting, sel.Filter.Early = model.Ready, true, early
		return a.act(ctx, cmd, &o.actOptions, act{
			verb: "retry", past: "retried", matchAfter: rate > 0, sends: true,
			rows: &messageRows{sel, func(ctx context.Context, s *gormstore.Store, what model.OperatorAct) (int, error) {
				return s.Retry(ctx, what, rate)
			}},
		})
	})
	return cmd
}
