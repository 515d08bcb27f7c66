package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// letterActOptions are the flags of verbs that change many dead letters.
type letterActOptions struct {
	actOptions
	which letterSelectionFlags
}

func (o *letterActOptions) bind(cmd *cobra.Command, statuses string) {
	o.which.bind(cmd.Flags(), statuses)
	o.bindCommon(cmd.Flags())
}

func (a *app) lettersReplayCommand() *cobra.Command {
	var o letterActOptions
	var how model.LetterReplay
	var inboxRetention time.Duration
	cmd := &cobra.Command{
		Use:   "replay [ID...]",
		Short: "Send dead letters back to the queue that gave them up",
		Long: "Makes of each dead letter a READY message, which the compensator sends to the queue that gave it\n" +
			"up and to no other; the letter becomes REPLAYED. The message keeps its id, so that a consumer that\n" +
			"has dealt with it skips it. Without ids it is about OPEN ones: PARKED ones have failed again after\n" +
			"a replay, and are named by id or --status. A letter is sent back once, whoever asks for it at the\n" +
			"same time or again: an edit makes it wait once more. Due times are spread: at a tenth of --rate\n" +
			"first, at all of it after 30 s. Shows what it would do unless --yes is given. With ids and a\n" +
			"filter, both must match.",
		Example: "  transmsg dead-letters replay --queue payments --cause exhausted --reason 'back up' --yes\n" +
			"  transmsg dead-letters replay 01890000-0000-7000-8000-000000000001 --yes",
	}
	o.bind(cmd, "default OPEN; with ids PARKED too")
	o.api.bind(cmd.Flags())
	fs := cmd.Flags()
	fs.Float64Var(&how.Rate, "rate", defaultReplayRate, "most messages due per second; 0 makes all due now")
	fs.BoolVar(&how.ToExchange, "to-exchange", false,
		"send through the exchange of the publisher: every bound queue gets a copy, not only the one that gave it up")
	fs.BoolVar(&how.AsNew, "as-new", false,
		"give the messages new ids, so that consumers that have dealt with them do so again")
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.DurationVar(&inboxRetention, "inbox-retention", compensator.DefaultInboxRetention,
		"age from which the compensator deletes consumers' inbox records: older dead letters are warned of; 0 is none")
	fs.AddFlagSet(settings(set))
	cmd.RunE = a.verb(func(ctx context.Context, ids []string) error {
		if !(how.Rate >= 0) || math.IsInf(how.Rate, 0) {
			return usagef("--rate %v must be 0 or more", how.Rate)
		}
		sel, err := o.which.waiting(ids, "replayed")
		if err != nil {
			return err
		}
		return a.act(ctx, cmd, &o.actOptions, act{
			verb: "replay", past: "replayed", sends: true,
			rows: &replayRows{letterRows: letterRows{sel: sel}, how: how, retention: inboxRetention},
		})
	})
	return cmd
}

func (a *app) lettersDiscardCommand() *cobra.Command {
	var o letterActOptions
	cmd := &cobra.Command{
		Use:   "discard [ID...]",
		Short: "Say of dead letters that they must not be handled any more",
		Long: "Makes dead letters DISCARDED that wait. They stay with their content, until the compensator's\n" +
			"--letter-retention; `dead-letters erase` removes the content. An edit makes one wait again.\n" +
			"Without ids it is about OPEN ones. Shows what it would do unless --yes is given. With ids and a\n" +
			"filter, both must match.",
		Example: "  transmsg dead-letters discard --queue audit --older-than 720h\n" +
			"  transmsg dead-letters discard 01890000-0000-7000-8000-000000000001 --reason 'paid by hand' --yes",
	}
	o.bind(cmd, "default OPEN; with ids PARKED too")
	cmd.RunE = a.verb(func(ctx context.Context, ids []string) error {
		sel, err := o.which.waiting(ids, "discarded")
		if err != nil {
			return err
		}
		return a.act(ctx, cmd, &o.actOptions, act{verb: "discard", past: "discarded", rows: &letterRows{
			sel: sel, apply: (*gormstore.Store).DiscardLetters,
		}})
	})
	return cmd
}

func (a *app) lettersEraseCommand() *cobra.Command {
	var o letterActOptions
	cmd := &cobra.Command{
		Use:   "erase [ID...]",
		Short: "Remove the content of dead letters for good, and keep their trail",
		Long: "Removes body, properties and headers of dead letters of any status, what the consumer said, and\n" +
			"the original of an edited one. Ids, names, cause, business key, times and history stay. Those that\n" +
			"wait are DISCARDED. A letter whose replay is still stored as a message is passed over: discard or\n" +
			"send that first. Shows what it would do unless --yes is given. With ids and a filter, both must\n" +
			"match.",
		Example: "  transmsg dead-letters erase --key customer-4711 --reason 'request of 2026-01-31' --yes",
	}
	o.bind(cmd, "default all")
	cmd.RunE = a.verb(func(ctx context.Context, ids []string) error {
		sel, err := o.which.selection(ids)
		switch {
		case err != nil:
			return err
		case o.which.scope.all && sel.Filter.Status == "":
			return usagef("--all: give --status too; erase is about letters of any status")
		}
		return a.act(ctx, cmd, &o.actOptions, act{
			verb: "erase", past: "erased", matchAfter: true, rows: &letterRows{
				sel: sel, apply: (*gormstore.Store).EraseLetters,
			},
		})
	})
	return cmd
}

// letterRows are the dead letters of an act.
type letterRows struct {
	sel    model.LetterSelection
	apply  func(*gormstore.Store, context.Context, model.LetterAct) (int, error)
	others map[model.LetterStatus]int // by a look, of the ids: those that do not match
}

func (l *letterRows) noun() string { return deadLetter }
func (l *letterRows) given() int   { return len(l.sel.IDs) }
func (l *letterRows) most() int    { return l.sel.Max }

func (l *letterRows) look(ctx context.Context, s *gormstore.Store, _ *reaches) (seen, error) {
	found, err := l.lookAt(ctx, s, 0)
	return found, err
}

func (l *letterRows) lookAt(ctx context.Context, s *gormstore.Store, old time.Duration) (*lettersSeen, error) {
	p, err := s.SelectLetters(ctx, l.sel, old)
	l.others = p.Others
	return &lettersSeen{LetterPreview: p, ids: len(l.sel.IDs), routes: []jsonReach{}}, err
}

func (l *letterRows) left(ctx context.Context, s *gormstore.Store) (int, error) {
	p, err := s.SelectLetters(ctx, l.sel, 0)
	return p.Rows, err
}

func (l *letterRows) do(
	ctx context.Context, s *gormstore.Store, actor, reason string, progress func(int),
) (int, error) {
	return l.apply(s, ctx, l.what(actor, reason, progress))
}

func (l *letterRows) what(actor, reason string, progress func(int)) model.LetterAct {
	return model.LetterAct{LetterSelection: l.sel, Actor: actor, Reason: reason, Progress: progress}
}

func (l *letterRows) notes(n int) []string { return otherLetters(l.others, n, len(l.sel.IDs)) }

// otherLetters says of ids that the act passed over why.
func otherLetters(others map[model.LetterStatus]int, n, ids int) (notes []string) {
	if n >= ids {
		return nil
	}
	rest := ids - n
	for _, status := range model.LetterStatuses() {
		k := others[status]
		if rest -= k; k == 0 {
			continue
		}
		why := "they do not match, or cannot be changed this way"
		switch status {
		case model.LetterReplayed:
			why = "sent back already; only an edit makes one wait again"
		case model.LetterDiscarded:
			why = "only an edit makes one wait again"
		case model.LetterOpen, model.LetterParked:
		}
		notes = append(notes, fmt.Sprintf("%d of the %d ids: %s, %s", k, ids, status, why))
	}
	if rest > 0 {
		notes = append(notes, fmt.Sprintf("%d of the %d ids: not %s; see transmsg dead-letters show ID", rest, ids,
			"changed, somebody else was first or there is no such dead letter"))
	}
	return notes
}

// jsonLetterAct is the documented result of the verbs on dead letters with --yes.
type jsonLetterAct struct {
	Verb        string        `json:"verb"`
	Applied     bool          `json:"applied"`
	DeadLetters int           `json:"dead_letters"`
	More        bool          `json:"more"`
	Actor       string        `json:"actor"`
	Reason      string        `json:"reason"`
	Reach       []jsonReach   `json:"reach"`   // of replay --to-exchange
	Refused     []jsonRefusal `json:"refused"` // of replay
}

// jsonRefusal is a dead letter that cannot be sent in the way that was asked for.
type jsonRefusal struct {
	ID  string `json:"id"`
	Why string `json:"why"`
}

func (l *letterRows) result(do *act, n int, more bool, actor, reason string, found seen) any {
	return jsonLetterAct{do.verb, true, n, more, actor, reason, found.(*lettersSeen).routes, []jsonRefusal{}}
}
