package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// defaultReplayRate is what a broker in trouble until a moment ago can be asked for.
const defaultReplayRate = 200

// actOptions are the flags that replay and discard share.
type actOptions struct {
	store  storeOptions
	which  selectionFlags
	actor  actorFlags
	api    managementOptions // of verbs that send
	reason string
	yes    bool
}

func (o *actOptions) bind(cmd *cobra.Command, statuses string) {
	fs := cmd.Flags()
	o.store.bind(fs, "required")
	o.which.bind(fs, statuses)
	o.actor.bind(fs)
	fs.StringVar(&o.reason, "reason", "", "why, kept in the history")
	fs.BoolVar(&o.yes, "yes", false, "do it, instead of showing what would be done")
}

// act is one of the verbs that change many messages.
type act struct {
	verb, past string
	do         func(context.Context, *gormstore.Store, model.OperatorAct) (int, error)
	// matchAfter says that messages match afterwards too: only --max leaves some out.
	matchAfter bool
	sends      bool // the messages are sent again
}

func (a *app) replayCommand() *cobra.Command {
	var o actOptions
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
		return a.act(ctx, cmd, &o, sel, act{
			"replay", "replayed",
			func(ctx context.Context, s *gormstore.Store, what model.OperatorAct) (int, error) {
				return s.Replay(ctx, what, rate)
			},
			false, true,
		})
	})
	return cmd
}

func (a *app) discardCommand() *cobra.Command {
	var o actOptions
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
		return a.act(ctx, cmd, &o, sel, act{
			"discard", "discarded",
			func(ctx context.Context, s *gormstore.Store, what model.OperatorAct) (int, error) {
				return s.Discard(ctx, what)
			},
			false, false,
		})
	})
	return cmd
}

// act shows what would be done, or does it with --yes.
func (a *app) act(ctx context.Context, cmd *cobra.Command, o *actOptions, sel model.Selection, do act) error {
	actor, err := o.actor.name()
	if err != nil {
		return err
	}
	var r *reaches
	if do.sends {
		routes, closed, err := o.api.routes(a)
		if err != nil {
			return err
		}
		defer closed()
		r = &reaches{routes: routes}
	}
	s, err := a.openStore(ctx, &o.store, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	if r != nil {
		r.store = s
	}
	if !o.yes {
		return a.previewAct(ctx, s, sel, do, a.repeated(cmd, "--yes"), r)
	}
	return a.applyAct(ctx, s, sel, o, actor, do, r)
}

// applyAct does it and says what became of it.
func (a *app) applyAct(
	ctx context.Context, s *gormstore.Store, sel model.Selection, o *actOptions, actor string, do act, r *reaches,
) error {
	p, groups, err := selected(ctx, s, sel)
	if err != nil {
		return err
	}
	reach, more := r.of(ctx, &p, groups) // later the messages may be gone
	what := model.OperatorAct{Selection: sel, Actor: actor, Reason: o.reason}
	progress := newProgress(a, do.past)
	what.Progress = progress.set
	n, err := do.do(ctx, s, what)
	progress.close()
	if err != nil {
		// What was done so far is committed; a repeat does the rest.
		return fmt.Errorf("%w\n%s %s before that; run the command again for the rest", err, count(n), do.past)
	}
	left, err := s.Select(ctx, sel)
	if err != nil {
		return fmt.Errorf("%s %s; count the rest: %w", count(n), do.past, err)
	}
	if do.matchAfter && n < sel.Max {
		left.Rows = 0
	}
	if a.jsonOut {
		return printJSON(a.stdout, jsonAct{do.verb, true, n, left.Rows > 0, actor, o.reason, reach})
	}
	fmt.Fprintf(a.stdout, "%s %s as %s\n", count(n), do.past, actor)
	if warning := copies(reach, more); warning != "" && n > 0 {
		fmt.Fprintf(a.stderr, "%s\n", warning)
		printReach(a.stderr, reach, more)
	}
	if ids := len(sel.IDs); n < ids {
		fmt.Fprintf(a.stderr, "%d of the %d ids: no such message in this state; see transmsg messages show ID\n",
			ids-n, ids)
	} else if left.Rows > 0 {
		fmt.Fprintln(a.stderr, "more messages match: run the command again")
	}
	return nil
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

// count is such as "1 message" or "12 messages".
func count(n int) string {
	if n == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", n)
}

// repeated is the command line of this run with more arguments, for a shell. The password
// in --store or --management is replaced.
func (a *app) repeated(cmd *cobra.Command, more ...string) string {
	words := strings.Fields(cmd.CommandPath())
	for _, w := range cmd.Flags().Args() {
		words = append(words, shellWord(w))
	}
	for i, w := range a.given {
		if i > 0 && (a.given[i-1] == "--store" || a.given[i-1] == "--management") {
			w = a.secrets.inURLs(w)
		}
		words = append(words, shellWord(w))
	}
	return strings.Join(append(words, more...), " ")
}

// shellWord quotes s for a shell where it needs it.
func shellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,@%+"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
