package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/transmsg/transmsg/store/gormstore"
)

// What rows of the two tables are called.
const (
	message    = "message"
	deadLetter = "dead letter"
)

// act is one of the verbs that change many rows: of messages, or of dead letters.
type act struct {
	verb, past string
	rows       rows
	// matchAfter says that rows match afterwards too: only --max leaves some out.
	matchAfter bool
	sends      bool // the messages are sent again
}

// rows are those of one table that an act is about. No selection has messages and dead letters.
type rows interface {
	// noun is what one of them is called, given how many have an id on the command line, most what --max lets through.
	noun() string
	given() int
	most() int
	// look reads what the act would touch, and where that would go.
	look(ctx context.Context, s *gormstore.Store, r *reaches) (seen, error)
	// left counts what matches now.
	left(ctx context.Context, s *gormstore.Store) (int, error)
	// do does it, and tells progress how far it is. n are done and committed, also with an error.
	do(ctx context.Context, s *gormstore.Store, actor, reason string, progress func(int)) (n int, err error)
	// result is the documented form of what was done.
	result(do *act, n int, more bool, actor, reason string, found seen) any
	// notes are what people are told besides, once n are done.
	notes(n int) []string
}

// seen is what an act would touch.
type seen interface {
	rows() int
	// preview is its documented form, show the same for people.
	preview(do *act, command string) any
	show(a *app, do *act, now int64) error
	// warning is of a sending, "" for none; reach writes where it goes.
	warning() string
	reach(w io.Writer)
}

// act shows what would be done, or does it with --yes.
func (a *app) act(ctx context.Context, cmd *cobra.Command, o *actOptions, do act) error {
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
	if !o.yes {
		return a.previewAct(ctx, s, &do, a.repeated(cmd, "--yes"), r)
	}
	return a.applyAct(ctx, s, &do, actor, o.reason, r)
}

// previewAct shows what an act would touch and the command that does it.
func (a *app) previewAct(ctx context.Context, s *gormstore.Store, do *act, command string, r *reaches) error {
	found, err := do.rows.look(ctx, s, r)
	if err != nil {
		return err
	}
	if a.jsonOut {
		return printJSON(a.stdout, found.preview(do, command))
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	if err := found.show(a, do, now); err != nil {
		return err
	}
	if found.rows() == 0 {
		return nil
	}
	if warning := found.warning(); warning != "" {
		fmt.Fprintf(a.stdout, "\nWarning: %s\n", warning)
		found.reach(a.stdout)
	}
	fmt.Fprintf(a.stdout, "\nNothing was changed. To %s:\n  %s\n", do.verb, command)
	return nil
}

// applyAct does it and says what became of it.
func (a *app) applyAct(ctx context.Context, s *gormstore.Store, do *act, actor, reason string, r *reaches) error {
	found, err := do.rows.look(ctx, s, r) // later the messages may be gone
	if err != nil {
		return err
	}
	noun := do.rows.noun()
	progress := newProgress(a, noun, do.past)
	n, err := do.rows.do(ctx, s, actor, reason, progress.set)
	progress.close()
	if err != nil {
		// What was done so far is committed; a repeat does the rest.
		return fmt.Errorf("%w\n%s %s before that; run the command again for the rest", err, counted(n, noun), do.past)
	}
	left, err := do.rows.left(ctx, s)
	if err != nil {
		return fmt.Errorf("%s %s; count the rest: %w", counted(n, noun), do.past, err)
	}
	if do.matchAfter && n < do.rows.most() {
		left = 0
	}
	if a.jsonOut {
		return printJSON(a.stdout, do.rows.result(do, n, left > 0, actor, reason, found))
	}
	fmt.Fprintf(a.stdout, "%s %s as %s\n", counted(n, noun), do.past, actor)
	if warning := found.warning(); warning != "" && n > 0 {
		fmt.Fprintf(a.stderr, "%s\n", warning)
		found.reach(a.stderr)
	}
	for _, note := range do.rows.notes(n) {
		fmt.Fprintln(a.stderr, note)
	}
	if left > 0 && n >= do.rows.given() {
		fmt.Fprintf(a.stderr, "more %ss match: run the command again\n", noun)
	}
	return nil
}

// count is such as "1 message" or "12 messages".
func count(n int) string { return counted(n, message) }

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
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
