package main

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// defaultReplayRate is what a broker in trouble until a moment ago can be asked for.
const defaultReplayRate = 200

// actOptions are the flags of verbs that change many rows.
type actOptions struct {
	store  storeOptions
	actor  actorFlags
	api    managementOptions // of verbs that send
	reason string
	yes    bool
}

func (o *actOptions) bindCommon(fs *pflag.FlagSet) {
	o.store.bind(fs, "required")
	o.actor.bind(fs)
	fs.StringVar(&o.reason, "reason", "", "why, kept in the history")
	fs.BoolVar(&o.yes, "yes", false, "do it, instead of showing what would be done")
}

// messageActOptions are those of messages.
type messageActOptions struct {
	actOptions
	which selectionFlags
}

func (o *messageActOptions) bind(cmd *cobra.Command, statuses string) {
	o.which.bind(cmd.Flags(), statuses)
	o.bindCommon(cmd.Flags())
}

func (a *app) replayCommand() *cobra.Command {
	var o messageActOptions
	var rate float64
	cmd := &cobra.Command{
		Use:   "replay [ID...]",
		Short: "Make DEAD messages READY again, for the compensator to send",
		Long: "Makes DEAD messages READY again, with their attempts at zero and their history kept; with\n" +
			"--exhausted READY ones whose attempts are used up. Due times are spread: at a tenth of --rate first,\n" +
			"at all of it after 30 s. A message that somebody else replays at the same time is replayed once, and\n" +
			"counted by one of the two. Shows what it would do unless --yes is given. With ids and a filter, both\n" +
			"must match.",
		Example: "  transmsg messages replay --service orders --code 312 --reason 'queue was missing'\n" +
			"  transmsg messages replay 01890000-0000-7000-8000-000000000001 --yes",
	}
	o.bind(cmd, "only DEAD can be replayed")
	o.api.bind(cmd.Flags())
	cmd.Flags().Float64Var(&rate, "rate", defaultReplayRate, "most messages due per second; 0 makes all due now")
	cmd.RunE = a.verb(func(ctx context.Context, ids []string) error {
		if !(rate >= 0) || math.IsInf(rate, 0) {
			return usagef("--rate %v must be 0 or more", rate)
		}
		sel, err := o.which.selection(ids)
		if err != nil {
			return err
		}
		switch {
		case sel.Filter.Exhausted:
		case sel.Filter.Status == model.Ready:
			return usagef("--status READY: only DEAD messages are replayed; READY ones are sent without help; " +
				"--exhausted is for those whose attempts are used up")
		default:
			sel.Filter.Status = model.Dead
		}
		return a.act(ctx, cmd, &o.actOptions, act{
			verb: "replay", past: "replayed", sends: true,
			rows: &messageRows{sel, func(ctx context.Context, s *gormstore.Store, what model.OperatorAct) (int, error) {
				return s.Replay(ctx, what, rate)
			}},
		})
	})
	return cmd
}

func (a *app) discardCommand() *cobra.Command {
	var o messageActOptions
	cmd := &cobra.Command{
		Use:   "discard [ID...]",
		Short: "Delete messages that must not be sent any more",
		Long: "Deletes DEAD messages, or READY ones with --status READY; those being sent at the moment stay. The\n" +
			"history keeps who did it and why; the content is gone: export it first. Shows what it would do\n" +
			"unless --yes is given. With ids and a filter, both must match.",
		Example: "  transmsg messages discard --service orders --exchange old --older-than 720h\n" +
			"  transmsg messages discard 01890000-0000-7000-8000-000000000001 --reason 'sent by hand' --yes",
	}
	o.bind(cmd, "default DEAD")
	cmd.RunE = a.verb(func(ctx context.Context, ids []string) error {
		sel, err := o.which.selection(ids)
		if err != nil {
			return err
		}
		if sel.Filter.Status == "" {
			sel.Filter.Status = model.Dead
		}
		return a.act(ctx, cmd, &o.actOptions, act{
			verb: "discard", past: "discarded",
			rows: &messageRows{sel, func(ctx context.Context, s *gormstore.Store, what model.OperatorAct) (int, error) {
				return s.Discard(ctx, what)
			}},
		})
	})
	return cmd
}

// messageRows are the messages of an act.
type messageRows struct {
	sel   model.Selection
	apply func(context.Context, *gormstore.Store, model.OperatorAct) (int, error)
}

func (m *messageRows) noun() string { return message }
func (m *messageRows) given() int   { return len(m.sel.IDs) }
func (m *messageRows) most() int    { return m.sel.Max }

func (m *messageRows) left(ctx context.Context, s *gormstore.Store) (int, error) {
	p, err := s.Select(ctx, m.sel)
	return p.Rows, err
}

func (m *messageRows) do(
	ctx context.Context, s *gormstore.Store, actor, reason string, progress func(int),
) (int, error) {
	return m.apply(ctx, s, model.OperatorAct{Selection: m.sel, Actor: actor, Reason: reason, Progress: progress})
}

func (m *messageRows) notes(n int) []string {
	if ids := len(m.sel.IDs); n < ids {
		return []string{missing(ids-n, ids)}
	}
	return nil
}

// missing says of ids that have no message.
func missing(n, ids int) string {
	return fmt.Sprintf("%d of the %d ids: no such message in this state; see transmsg messages show ID", n, ids)
}

// jsonAct is the documented result of replay, discard and edit with --yes.
type jsonAct struct {
	Verb     string      `json:"verb"`
	Applied  bool        `json:"applied"`
	Messages int         `json:"messages"`
	More     bool        `json:"more"`
	Actor    string      `json:"actor"`
	Reason   string      `json:"reason"`
	Reach    []jsonReach `json:"reach"` // of replay and retry
}

func (m *messageRows) result(do *act, n int, more bool, actor, reason string, found seen) any {
	return jsonAct{do.verb, true, n, more, actor, reason, found.(*messagesSeen).routes}
}
